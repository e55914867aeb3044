"""The commands of the README and of docs/clients.md, typed into terminals by a slow reader."""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.acceptance.harness.commands import DEFAULT_SIGNALS
from tests.acceptance.harness.environment import ROOT, server_environment
from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.processes import end_leftovers

# The reader takes a minute before each step, and the default graces are 30 s and 10 s. All three are
# divided by five: a busy machine must start `python3` and `curl` within the first grace.
GRACES = {"CRUSH_SERVER_CREATE_GRACE": "6", "CRUSH_SERVER_DETACH_GRACE": "2"}
PAUSE_SECONDS = 12.0
PATIENCE_SECONDS = 60.0
BLOCK = re.compile(r"^```sh\n# terminal ([AB])\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:.*(?:\\|&&)\n)*.*\n")
PROMPT = "READY> "
CTRL_C = "\x03"
PAGES = [ROOT / "README.md", ROOT / "docs" / "clients.md"]


class Shell:
    """bash in a terminal of its own. A context manager."""

    def __init__(self, env: dict[str, str], cwd: Path) -> None:
        self.shown = ""
        self._mark = 0
        self._terminal, terminal_of_child = pty.openpty()
        self._child = subprocess.Popen(
            [sys.executable, "-c", DEFAULT_SIGNALS, "bash", "--norc", "--noprofile", "-i"],
            env={**env, "PS1": PROMPT, "TERM": "dumb"},
            cwd=cwd,
            stdin=terminal_of_child,
            stdout=terminal_of_child,
            stderr=terminal_of_child,
            start_new_session=True,
        )
        os.close(terminal_of_child)

    def type(self, keys: str) -> None:
        self._mark = len(self.shown)
        os.write(self._terminal, keys.encode())

    def wait_for(self, pattern: str) -> str:
        """What was shown since the last keys, as soon as the pattern is in it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not re.search(pattern, self.shown[self._mark :]):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._terminal], [], [], left)[0]:
                raise AssertionError(f"{pattern} was not shown, but:\n{self.shown}")
            self.shown += (
                os.read(self._terminal, 65_536).decode(errors="replace").replace("\r\n", "\n")
            )
        return self.shown[self._mark :]

    def run(self, lines: str) -> str:
        """Types the commands one after the other, each when the one before has ended."""
        shown = ""
        for command in COMMAND.findall(lines):
            self.type(command)
            shown += self.wait_for(rf"\n{PROMPT}$")
        return shown

    def interrupt(self) -> None:
        """Presses Ctrl-C, and waits for the command to end."""
        self.type(CTRL_C)
        self.wait_for(rf"{PROMPT}$")

    def close(self) -> None:
        # bash gives each command a process group of its own. The hangup of the terminal would end
        # the command too, but not where SIGHUP is ignored, as in tests that `nohup` has started.
        command = os.tcgetpgrp(self._terminal)  # 0 if the shell has ended
        for group in {command or self._child.pid, self._child.pid}:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self._child.wait()
        os.close(self._terminal)

    def __enter__(self) -> "Shell":
        try:
            self.wait_for(PROMPT)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with this checkout's programs, and the libraries of this environment in `.venv`."""
    folder = tmp_path / "checkout"
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    shutil.copytree(ROOT / "bin", folder / "bin")
    for name in ("manage.py", "crushsite", "requirements.txt"):
        (folder / name).symlink_to(ROOT / name)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    with (ROOT / "requirements.txt").open() as requirements:
        stamp = subprocess.check_output(["cksum"], stdin=requirements)
    (folder / ".venv" / ".installed-requirements.txt").write_bytes(stamp)
    return folder


@pytest.fixture
def env(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of the shells. After the test, nothing that they started may still run."""
    data_dir = tmp_path / "data"
    yield server_environment(tmp_path / "home", data_dir, GRACES)
    assert end_leftovers(str(data_dir)) == []


def blocks_of(page: Path, tmp_path: Path, port: int) -> Iterator[tuple[str, str]]:
    """Terminal and commands of each block; only the folder and the port are this test's own."""
    text = page.read_text().replace("/tmp/hello", str(tmp_path / "hello"))
    text = text.replace("127.0.0.1:22787", f"127.0.0.1:{port}")
    serving = f"bin/serve --host tcp://127.0.0.1:{port}"
    return iter(BLOCK.findall(re.sub(r"^bin/serve$", serving, text, flags=re.MULTILINE)))


def next_block(blocks: Iterator[tuple[str, str]], terminal: str) -> str:
    where, commands = next(blocks)
    assert where == terminal
    return commands


def next_step(blocks: Iterator[tuple[str, str]], terminal: str) -> str:
    time.sleep(PAUSE_SECONDS)
    return next_block(blocks, terminal)


def expect_no_errors(*shells: Shell) -> None:
    for shell in shells:
        assert "curl: (" not in shell.shown
        assert "Traceback" not in shell.shown
        assert "Error:" not in shell.shown


def test_the_commands_of_the_readme_work_at_human_speed(
    checkout: Path, env: dict[str, str], tmp_path: Path, port: int
) -> None:
    blocks = blocks_of(ROOT / "README.md", tmp_path, port)
    with Shell(env, checkout) as server, Shell(env, checkout) as b:
        server.type(next_block(blocks, "A"))
        server.wait_for("Serving on")

        assert "- manage.py" in b.run(next_step(blocks, "B"))
        assert "Hello, world" in b.run(next_step(blocks, "B")).partition("--wait")[2]
        listed = b.run(next_step(blocks, "B"))
        assert re.search(r"touch made\S+ +busy", listed)  # the title is cut at 80 columns
        assert re.search(r"read greeting\.txt  +\d", listed)

        b.type(next_step(blocks, "B"))
        assert "bash wants to execute" in b.wait_for(r"allow\?")
        assert not (tmp_path / "hello" / "made.txt").exists()
        b.type("y\n")
        assert "- made.txt" in b.wait_for(rf"\n{PROMPT}$")
        assert next(blocks, None) is None
        server.interrupt()
        expect_no_errors(server, b)


def test_the_conversation_over_http_works_at_human_speed(
    checkout: Path, env: dict[str, str], tmp_path: Path, port: int
) -> None:
    blocks = blocks_of(ROOT / "docs" / "clients.md", tmp_path, port)
    with Shell(env, checkout) as a, Shell(env, checkout) as b, Shell(env, checkout) as server:
        server.type(f"bin/serve --host tcp://127.0.0.1:{port}\n")
        server.wait_for("Serving on")

        a.run(next_block(blocks, "A"))
        *setup, watching = COMMAND.findall(next_block(blocks, "B"))
        b.run("".join(setup))
        b.type(watching)
        b.wait_for('"type":"stream.opened"')

        assert "\n202\n" in a.run(next_step(blocks, "A"))
        b.wait_for(r'"type":"run.finished"')  # while the stream goes on

        assert "\n202\n" in a.run(next_step(blocks, "A"))
        b.wait_for(r'"type":"permission.requested"')

        shown = a.run(next_step(blocks, "A"))
        assert shown.index('{"resolved":true}') < shown.index('{"resolved":false}')
        b.wait_for(r'"type":"run.finished"[^$]*"type":"run.finished"')
        assert "greeting.txt\nmade-too.txt\n" in a.run(next_step(blocks, "A"))
        assert next(blocks, None) is None
        b.interrupt()
        server.interrupt()
        expect_no_errors(a, b, server)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_names_its_terminal(page: Path) -> None:
    assert len(BLOCK.findall(page.read_text())) == page.read_text().count("```sh")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_errors_are_not_hidden(page: Path) -> None:
    for command in re.findall(
        r"\bcurl [^|\n]*", "".join(b for _, b in BLOCK.findall(page.read_text()))
    ):
        assert command.startswith("curl --fail-with-body -sS"), command
