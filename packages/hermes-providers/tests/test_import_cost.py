from __future__ import annotations

import subprocess
import sys


def test_importing_the_package_imports_no_http_client() -> None:
    code = (
        "import sys, hermes_providers; print(sorted({'httpx', 'anyio', 'ssl', 'asyncio'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
