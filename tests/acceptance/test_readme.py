"""The README's commands as they are written, typed into two terminals by somebody who takes a while."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.harness.environment import ROOT, server_environment
from tests.acceptance.harness.ports import free_port

# The reader thinks for longer than a client that opened a workspace may take to watch it.
# That must be long enough for a busy machine to start `python3` and `curl` in between.
GRACES = {"CRUSH_SERVER_CREATE_GRACE": "6", "CRUSH_SERVER_DETACH_GRACE": "3"}
THOUGHT_SECONDS = 8.0
PATIENCE_SECONDS = 60.0
BLOCK = re.compile(r"^```sh\n# terminal ([AB])\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT = "READY> "


class Shell:
    """bash in a terminal of its own. A context manager."""

    def __init__(self, env: dict[str, str], cwd: Path) -> None:
        self.shown = ""
        self._mark = 0
        self._ours, theirs = pty.openpty()
        self._child = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            env={**env, "PS1": PROMPT, "TERM": "dumb"},
            cwd=cwd,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def type(self, keys: str) -> None:
        self._mark = len(self.shown)
        os.write(self._ours, keys.encode())

    def wait_for(self, pattern: str) -> str:
        """What was shown since the last keys, as soon as the pattern is in it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not re.search(pattern, self.shown[self._mark :]):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._ours], [], [], left)[0]:
                raise AssertionError(f"{pattern} was not shown, but:\n{self.shown}")
            self.shown += os.read(self._ours, 65_536).decode(errors="replace").replace("\r\n", "\n")
        return self.shown[self._mark :]

    def run(self, lines: str) -> str:
        """Types the lines one after the other, each when the one before has ended."""
        shown = ""
        for line in lines.splitlines():
            self.type(f"{line}\n")
            shown += self.wait_for(rf"\n{PROMPT}$")
        return shown

    def __enter__(self) -> "Shell":
        self.wait_for(PROMPT)
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        os.close(self._ours)


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def blocks(tmp_path: Path, port: int) -> Iterator[tuple[str, str]]:
    """Terminal and commands of each block; only the folder and the port are this test's own."""
    text = (ROOT / "README.md").read_text()
    text = text.replace("/tmp/hello", str(tmp_path / "hello")).replace("22787", str(port))
    return iter(BLOCK.findall(text))


@pytest.fixture
def env(tmp_path: Path, port: int) -> dict[str, str]:
    """`crush-server` and `bin/serve` of this checkout, with the libraries of this environment."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = f'exec "{sys.executable}" "{ROOT / "crushsite" / "__main__.py"}"'
    serve = f"{program} serve --host tcp://127.0.0.1:{port}"
    for name, line in (("crush-server", f'{program} "$@"'), ("serve", serve)):
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    return server_environment(tmp_path / "home", tmp_path / "data", GRACES)


def test_the_first_minute_and_the_conversation_work_at_human_speed(
    blocks: Iterator[tuple[str, str]], env: dict[str, str], tmp_path: Path
) -> None:
    with Shell(env, tmp_path) as a, Shell(env, tmp_path) as b, Shell(env, tmp_path) as server:
        assert "Hello, world" in a.run(_next(blocks, "A"))

        a.type(_next(blocks, "A"))
        asked = a.wait_for(r"allow\?")
        assert "bash wants to execute" in asked
        a.type("y\n")
        a.wait_for(rf"\n{PROMPT}$")

        server.type(_next(blocks, "B"))
        server.wait_for("Serving on")

        *setup, watching = _next(blocks, "B").splitlines(keepends=True)
        b.run("".join(setup))
        b.type(watching)
        b.wait_for('"type":"stream.opened"')

        time.sleep(THOUGHT_SECONDS)
        assert "\n202\n" in a.run(_next(blocks, "A"))
        b.wait_for(r'"type":"run.finished"')  # while the stream goes on

        time.sleep(THOUGHT_SECONDS)
        assert "\n202\n" in a.run(_next(blocks, "A"))
        b.wait_for(r'"type":"permission.requested"')

        time.sleep(THOUGHT_SECONDS)
        shown = a.run(_next(blocks, "A"))
        assert shown.index('{"resolved":true}') < shown.index('{"resolved":false}')
        b.wait_for(r'"type":"run.finished"[^$]*"type":"run.finished"')
        assert "greeting.txt\nmade-too.txt\nmade.txt\n" in a.run(_next(blocks, "A"))
        assert next(blocks, None) is None
        for shell in (a, b, server):
            assert "curl: (" not in shell.shown
            assert "Traceback" not in shell.shown


def _next(blocks: Iterator[tuple[str, str]], terminal: str) -> str:
    where, commands = next(blocks)
    assert where == terminal
    return commands


def test_errors_are_not_hidden() -> None:
    text = (ROOT / "README.md").read_text()
    for command in re.findall(
        r"\bcurl [^|\n]*", "".join(block for _, block in BLOCK.findall(text))
    ):
        assert command.startswith("curl --fail-with-body -sS"), command
