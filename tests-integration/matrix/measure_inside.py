"""Prints, as JSON, the seconds that importing the modules named takes, and the bytes of what is installed.

python -I measure_inside.py hermes_messages hermes_loop
"""

import importlib
import importlib.metadata
import json
import sys
import time
from pathlib import Path


def installed_bytes() -> int:
    """The size of all files that the wheels brought; what Python compiles of them later is not counted."""
    files = [
        Path(str(file.locate())) for dist in importlib.metadata.distributions() for file in dist.files or ()
    ]
    return sum(file.stat().st_size for file in files if file.suffix != ".pyc" and file.is_file())


def main() -> None:
    """Import first: nothing else may have loaded what is measured."""
    started = time.perf_counter()
    for name in sys.argv[1:]:
        importlib.import_module(name)
    print(json.dumps({"seconds": time.perf_counter() - started, "bytes": installed_bytes()}))


if __name__ == "__main__":
    main()
