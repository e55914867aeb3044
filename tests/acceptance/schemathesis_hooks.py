"""What schemathesis loads besides the schema: seeded ids, addresses on loopback, and a record.

Three of four requests get the ids of rows that exist. The fourth keeps what was generated.
"""

import json
import os
import zlib
from pathlib import Path
from typing import Any

import schemathesis

SEEDS: dict[str, Any] = json.loads(os.environ["SCHEMATHESIS_SEEDS"])
RECORD = Path(os.environ["SCHEMATHESIS_RECORD"])
LOOPBACK = "https://127.0.0.1:9/"


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    if isinstance(case.body, dict):
        given = case.body.get("path")
        if isinstance(given, str) and given.startswith("/") and Path(given.split("\0")[0]).is_dir():
            case.body["path"] = SEEDS["folder"]  # no other folder may become a workspace
        for name in ("url", "endpoint"):  # a channel for notifications must not lead elsewhere
            if name in case.body:
                case.body[name] = LOOPBACK
    if zlib.crc32(case.id.encode()) % 4 == 0:
        return
    # What is deleted must not be what the other requests need.
    seeds = SEEDS["kept"]
    if case.method == "DELETE":
        seeds = seeds | SEEDS["deleted"] | SEEDS["deleted_at"].get(case.path, {})
    for name in case.path_parameters or {}:
        if name in seeds:
            case.path_parameters[name] = seeds[name]


@schemathesis.hook
def after_call(_context: Any, case: Any, response: Any) -> None:
    with RECORD.open("a") as record:
        record.write(f"{case.method} {case.path} {response.status_code}\n")


@schemathesis.serializer("application/x-ndjson")
def json_lines(_context: Any, value: Any) -> bytes:
    """An import of a session: text or bytes as they are, anything else as one line of JSON."""
    if isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode(errors="replace")
