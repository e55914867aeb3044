"""Folders with traps in which commands run, and what the commands left behind in them.

As root the commands run as ``nobody``, who can write nowhere else; otherwise as the person who
runs the tests, in scratch folders.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from agents.tools.shell.read_only import read_only_variables

CANARY = 'b[$(>"$HOME/OWNED")]'  # in arithmetic, bash runs what the subscript says
_TRAP = '#!/bin/sh\n: > "$HOME/OWNED"\n'
_TRAPPED = [
    "ls",
    "cat",
    "wc",
    "grep",
    "sed",
    "sort",
    "find",
    "git",
    "head",
    "rg",
    "id",
    "echo",
    "touch",
]
_PLANTED = (".", "10", "11", "12", "1", "2", "src", "x", "a")  # where a changed PATH may lead
_SECONDS = "3"
_RUN_EACH = f'for line; do timeout -k 1 {_SECONDS} bash -c "$line" </dev/null; done'

Picture = Mapping[str, tuple[int, int, int]]


class Sandbox:
    """``environment`` is added to that of the commands. Remove it with ``close``."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="fuzzing-"))
        self.root.chmod(0o755)
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self.work = self.root / "work"
        self._env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.root / "tmp"),
            "LC_ALL": "C.UTF-8",
            **read_only_variables({"filter.x.clean": "", "filter.x.required": "false"}),
            **dict.fromkeys(("x", "a", "b", "n", "o", "line", "A", "y"), CANARY),
            **(environment or {}),
        }
        self._clean: Picture = {}
        self.reset()

    def reset(self) -> None:
        """Everything as it was at the beginning."""
        for name in ("work", "home", "tmp"):
            shutil.rmtree(self.root / name, ignore_errors=True)
            (self.root / name).mkdir()
        for name in _PLANTED:
            (self.work / name).mkdir(exist_ok=True)
            for program in _TRAPPED:
                trap = self.work / name / program
                if not trap.is_dir():
                    trap.write_text(_TRAP)
                    trap.chmod(0o755)
        for name in ("a.txt", "b.txt", "src/one.py", "tests.txt", "²x", "b[$(touch OWNED)]"):
            (self.work / name).write_text(f"foo\n{CANARY}\n1\n-delete\nfoo bar\n")
        (self.work / "b64.txt").write_text("Zm9v\n")
        (self.work / "data.json").write_text('{"a": [{"b": 1}]}\n')
        for name in ("-delete", "-exec", "--output=OWNED2", "-o"):
            (self.work / name).write_text("")
        self._plant_repository()
        self._hand_over()
        self._clean = self._picture()

    def effects(self, lines: Sequence[str]) -> list[str]:
        """What running these lines changed, one sentence each; empty when they changed nothing."""
        self._run(lines)
        now = self._picture()
        changed = [
            f"changed {name}"
            for name in self._clean.keys() & now.keys()
            if self._clean[name] != now[name]
        ]
        found = sorted(
            [f"made {name}" for name in now.keys() - self._clean.keys()]
            + [f"removed {name}" for name in self._clean.keys() - now.keys()]
            + changed
        )
        if found:
            self.reset()
        return found

    def close(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def _run(self, lines: Sequence[str]) -> None:
        with subprocess.Popen(
            ["bash", "-c", _RUN_EACH, "bash", *lines],
            cwd=self.work,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_limit,
            user=self._user.pw_uid if self._user else None,
            group=self._user.pw_gid if self._user else None,
            extra_groups=[] if self._user else None,
        ) as process:
            process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # what a line left running

    def _plant_repository(self) -> None:
        for step in (
            ["init", "-q", "-b", "main"],
            ["add", "-A"],
            ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "first"],
        ):
            env = {
                "PATH": os.environ["PATH"],
                "HOME": self._env["HOME"],
                "GIT_CONFIG_NOSYSTEM": "1",
            }
            subprocess.run(["git", *step], cwd=self.work, env=env, check=True, timeout=30)
        trap = str(self.work / "10" / "ls")
        (self.work / ".git" / "info" / "attributes").write_text("*.txt filter=x\n")
        with (self.work / ".git" / "config").open("a") as config:
            config.write(f'[core]\n\tfsmonitor = {trap}\n[filter "x"]\n\tclean = {trap}\n')
            config.write(f"[gpg]\n\tprogram = {trap}\n[log]\n\tshowSignature = true\n")
            config.write(f'[man]\n\tviewer = x\n[man "x"]\n\tcmd = {trap}\n')

    def _hand_over(self) -> None:
        if self._user is None:
            return
        for name in ("work", "home", "tmp"):
            for folder, folders, files in os.walk(self.root / name):
                for entry in (".", *folders, *files):
                    os.chown(
                        Path(folder) / entry,
                        self._user.pw_uid,
                        self._user.pw_gid,
                        follow_symlinks=False,
                    )

    def _picture(self) -> Picture:
        seen: dict[str, tuple[int, int, int]] = {}
        for name in ("work", "home", "tmp"):
            for folder, folders, files in os.walk(self.root / name):
                for entry in (*folders, *files):
                    path = Path(folder) / entry
                    status = path.lstat()
                    seen[str(path)] = (status.st_mode, status.st_mtime_ns, status.st_size)
        return seen


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
