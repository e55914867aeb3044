"""What is judged read-only is run for real, and must leave everything as it was."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess

import pytest

from tests.unit.permissions.command_table import READ_ONLY

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")

READS = [command for group in READ_ONLY.values() for command in group]


def _environment(home):
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",  # ``git status`` else refreshes its index where it may
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
    }  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    work = home / "work"
    (work / "src").mkdir(parents=True)
    (work / "src" / "one.py").write_text("foo = 1\n")
    (work / "tests").mkdir()
    for name in ("a.txt", "b.txt"):
        (work / name).write_text("foo\nbar\nfoo bar\n")
    (work / "b64.txt").write_text("Zm9v\n")
    (work / "data.json").write_text('{"a": [{"b": 1}]}\n')
    # Names that a careless pattern would hand over as options.
    (work / "-delete").write_text("")
    for step in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", *step], cwd=work, env=_environment(home), check=True, timeout=30)
    return home


def _picture(folder):
    """Every name below a folder with its kind, mode, time of change and content."""
    seen = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b""
        seen[path] = (status.st_mode, status.st_mtime_ns, status.st_size, content)
    return seen


@pytest.mark.parametrize("command", READS)
def test_it_leaves_every_file_as_it_was(command, home):
    before = _picture(home)
    result = subprocess.run(
        ["bash", "-c", command],
        cwd=home / "work",
        env=_environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert _picture(home) == before
    # Bash itself must have understood it: the table is not to pass by being broken.
    assert b"syntax error" not in result.stderr
