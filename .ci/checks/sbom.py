"""The bill of materials of a wheel: what uv exports from the lock file, bound to the wheel's own bytes."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

_NAMESPACE = uuid.UUID("6f5b6a52-6b2b-5a3c-9d0e-2f0c5b1f7a11")


def write_sbom(exported: str, wheel: Path) -> str | None:
    """Write `WHEEL.cdx.json` beside the wheel; what its schema has against it, or None.

    The same wheel and lock file give the same bytes: the serial number follows from the wheel's hash, and the
    time is that of SOURCE_DATE_EPOCH, or left out.
    """
    name, version = wheel.name.split("-")[:2]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    document = json.loads(exported)
    for part in document["components"]:
        part.pop("externalReferences", None)  # the addresses of every file that the index has of it
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(_NAMESPACE, digest)}"
    metadata = document["metadata"]
    metadata.pop("timestamp", None)
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch:
        metadata["timestamp"] = datetime.fromtimestamp(int(epoch), UTC).isoformat()
    component = metadata["component"]
    if (component["name"], component["version"]) != (name.replace("_", "-"), version):
        return f"it is of {component['name']} {component['version']}"
    component["purl"] = f"pkg:pypi/{component['name']}@{version}"
    component["licenses"] = [{"license": {"id": "MIT"}}]
    component["hashes"] = [{"alg": "SHA-256", "content": digest}]
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    problem = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
    if problem is not None:
        return str(problem)
    wheel.with_name(f"{name}-{version}.cdx.json").write_text(text, "utf-8")
    return None
