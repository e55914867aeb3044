"""The protocol's package costs memory and time: only the first server that is started loads it."""

import subprocess
import sys

LATE = {"mcp", "mcp_types", "httpx2", "jsonschema", "opentelemetry", "starlette", "uvicorn"}


def test_a_process_without_servers_does_not_load_the_protocols_package() -> None:
    code = f"import sys, agents.tools.mcp.tools; print(sorted({LATE!r} & set(sys.modules)))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.stdout.strip(), ended.returncode) == ("[]", 0), ended.stderr
