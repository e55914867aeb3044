"""Real processes that a test tells apart by a word of its own in their arguments."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

# Leaves its group and session, empties its environment and forks twice, as daemons do.
DAEMON = """
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
null = os.open(os.devnull, os.O_RDWR)
for n in range(3): os.dup2(null, n)
os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)", sys.argv[1]], {})
"""


@dataclass
class Word:
    """An argument that no other process has."""

    text: str = field(default_factory=lambda: f"word-{uuid.uuid4()}")

    def pids(self) -> set[int]:
        found: set[int] = set()
        for process in psutil.process_iter(["cmdline", "status"]):
            line = process.info["cmdline"] or []
            # Not the shell that has the word inside of its command, only who sleeps with it.
            if self.text in line and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.add(process.pid)
        return found

    @property
    def sleeper(self) -> str:
        """A shell command that sleeps with the word as an argument."""
        return f"{PYTHON_SLEEP} {self.text}"


PYTHON_SLEEP = "python3 -I -S -c 'import time; time.sleep(600)'"


def until(condition: Callable[[], object], *, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "It did not come to be in time."
        time.sleep(0.01)


def daemon_command(folder: Path, word: Word) -> str:
    script = folder / "daemon.py"
    script.write_text(DAEMON)
    return f"python3 -I -S {script} {word.text}"
