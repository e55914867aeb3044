"""Tries mutants one at a time in a copy of the tree, each in a forked process with a time limit.

The parent has loaded pytest and the libraries, but nothing of the project: what is forked
loads the mutated file, and saves a second each.
"""

from __future__ import annotations

import importlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.operators import Mutant

_LIBRARIES = (
    "pytest",
    "django.db.models",
    "orjson",
    "psycopg",
    "aiohttp",
    "channels",
)
_OWN_PACKAGES = {
    "tests",
    "agents",
    "crushsite",
    "notifications",
    "people",
    "permissions",
    "workspaces",
}
_MEMORY = 4 * 1024**3
_SLOWER = 4.0  # a test under a mutant may take so many times longer
_START_SECONDS = 20.0
_PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Verdict:
    result: str  # killed, timeout, survived, unseen (no test executes it)
    by: str = ""
    seconds: float = 0.0


def copy_tree(root: Path, tree: Path) -> None:
    """What git tracks or would track, and the virtual environment as a link."""
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, capture_output=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.decode().split("\0")):
        if (root / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, tree / name)


def load_libraries() -> None:
    for name in _LIBRARIES:
        importlib.import_module(name)


class Tree:
    def __init__(self, folder: Path, temporary: Path) -> None:
        self.folder = folder
        self._temporary = temporary

    def attempt(
        self, mutant: Mutant, stages: Sequence[Sequence[str]], seconds: dict[str, float]
    ) -> Verdict:
        """Runs the tests of each stage until one fails."""
        began = time.monotonic()
        if not any(stages):
            return Verdict("unseen")
        path = self.folder / mutant.path
        source = path.read_bytes()
        path.write_bytes(mutant.applied(source))
        try:
            for tests in filter(None, stages):
                limit = _START_SECONDS + _SLOWER * sum(seconds.get(test, 1.0) for test in tests)
                code, by = self.run(tests, limit=min(limit, _PATIENCE_SECONDS))
                if code != 0:
                    result = "timeout" if code is None else "killed"
                    return Verdict(result, by, round(time.monotonic() - began, 1))
        finally:
            path.write_bytes(source)
        return Verdict("survived", "", round(time.monotonic() - began, 1))

    def run(
        self,
        tests: Sequence[str],
        *,
        limit: float,
        plugins: Sequence[object] = (),
        keep_going: bool = False,
    ) -> tuple[int | None, str]:
        """Exit code (``None`` after the limit) and the first test that failed."""
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary.mkdir(parents=True)
        log = self._temporary / "log"
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            self._child(tests, log, plugins, keep_going)
        code = _wait(pid, limit)
        return code, _first_failure(log)

    def _child(
        self, tests: Sequence[str], log: Path, plugins: Sequence[object], keep_going: bool
    ) -> None:
        code = 99
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
            output = os.open(log, os.O_WRONLY | os.O_CREAT)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.chdir(self.folder)
            for name in [name for name in sys.modules if name.partition(".")[0] in _OWN_PACKAGES]:
                del sys.modules[name]
            sys.path[:] = [str(self.folder), *(p for p in sys.path if p and Path(p) != Path.cwd())]
            sys.dont_write_bytecode = True
            isolated = self._temporary / "isolated"
            isolated.mkdir()
            os.environ["CRUSH_TESTS_ROOT"] = str(isolated)
            import pytest

            options = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist"]
            options += [
                f"--basetemp={self._temporary / 'pytest'}",
                "--hypothesis-seed=0",
                "--tb=line",
            ]
            options += ["--timeout=60"] if keep_going else ["-x", "--timeout=60"]
            code = int(pytest.main([*options, *tests], plugins=list(plugins)))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)  # the parent's own clean-up is not the child's


def _wait(pid: int, limit: float) -> int | None:
    until = time.monotonic() + limit
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            _end_group(pid)
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    _end_group(pid)
    os.waitpid(pid, 0)
    return None


def _end_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _first_failure(log: Path) -> str:
    text = log.read_text(errors="replace") if log.exists() else ""
    for line in text.splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            return line.split(" ", 1)[1].split(" - ")[0]
    return text.strip().splitlines()[-1][:200] if text.strip() else ""
