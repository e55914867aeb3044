"""Evaluates a ``crushrc`` in a bash of its own and reports what it configures.

The builtins are shell functions that report each call, with its line, through a pipe.
The program has a time limit, no input and no terminal; all processes in its process group
end with it. Blocks; the file's content and actions raise nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from typing_extensions import override

from agents.config.crushrc.language import BUILTINS, BuiltinCall, trees_of
from agents.config.parse import Tree
from agents.config.problem import Problem, problem_with_file
from workspaces.release import VERSION

TIME_LIMIT = 5.0
REPORT_LIMIT = 4 << 20
ERROR_LIMIT = 64 << 10
PROBLEMS_LIMIT = 20
_LINGER = 0.5  # how long a background program may keep the pipe open
# These variables would run another file first, or change the builtins.
_NOT_PASSED = ("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "BASH_XTRACEFD")
_LINE = re.compile(r"^(?P<file>.*): line (?P<line>\d+): (?P<message>.*)$")
_SYNTAX = re.compile(r"(?:syntax error|unexpected EOF)")
_PRELUDE = """
__report() {{ printf '%s\\0' "$@" >&{fd}; }}
__call() {{ __report call "${{BASH_SOURCE[2]}}" "${{BASH_LINENO[1]}}" "$#" "$@"; }}
{functions}
model() {{
  case "$1" in
    large | small)
      local choice="__model_$1"
      if [ $# -eq 1 ]; then printf '%s\\n' "${{!choice}}"; return; fi
      case "$2" in --*) ;; *) printf -v "$choice" %s "$2" ;; esac ;;
  esac
  __call model "$@"
}}
. "$1"
__report end "$?"
"""


@dataclass(frozen=True, slots=True)
class Evaluated:
    trees: tuple[Tree, ...] = field(repr=False)  # they may contain keys
    problems: tuple[Problem, ...] = ()  # calls and commands that failed; the rest counts
    fault: Problem | None = None  # the file as a whole could not be evaluated


def evaluate(file: str, *, env: Mapping[str, str], seconds: float = TIME_LIMIT) -> Evaluated:
    """Runs the file. ``env`` is its whole environment, besides ``CRUSH_VERSION``."""
    bash = shutil.which("bash", path=env.get("PATH") or os.defpath) or shutil.which("bash")
    if bash is None:
        return Evaluated(
            (),
            fault=problem_with_file(file, "bash is not installed: install it, or use crush.json"),
        )
    reads, writes = os.pipe()
    try:
        process = subprocess.Popen(
            [bash, "--noprofile", "--norc", "-c", _prelude(writes), "crushrc", file],
            cwd=Path(file).parent,
            env=_environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[writes],
            start_new_session=True,
        )
    except OSError as error:
        os.close(reads)
        return Evaluated((), fault=problem_with_file(file, f"bash: {error.strerror}"))
    finally:
        os.close(writes)
    with contextlib.closing(_Running(process, reads)) as running:
        in_time = running.wait(seconds)
        report, complaints = running.report(), running.complaints()
    if not in_time:
        message = f"it took longer than {seconds:g} seconds and was stopped"
        return Evaluated((), fault=problem_with_file(file, message))
    return _evaluated(file, report, complaints, process.returncode)


def _prelude(descriptor: int) -> str:
    functions = "\n".join(
        f'{name}() {{ __call {name} "$@"; }}' for name in BUILTINS if name != "model"
    )
    return _PRELUDE.format(fd=descriptor, functions=functions)


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in env.items()
        if name not in _NOT_PASSED and not name.startswith("BASH_FUNC_") and "\0" not in value
    }
    return kept | {"CRUSH_VERSION": VERSION, "LC_ALL": "C.UTF-8"}


class _Running:
    """A process, and two threads that read what it writes, each up to a limit."""

    def __init__(self, process: subprocess.Popen[bytes], reads: int) -> None:
        self._process = process
        self._report = _PipeReader(reads, REPORT_LIMIT)
        assert process.stderr is not None  # noqa: S101  set by stderr=PIPE
        self._stderr = process.stderr
        self._complaints = _PipeReader(os.dup(process.stderr.fileno()), ERROR_LIMIT)

    def wait(self, seconds: float) -> bool:
        """Waits for the program's end; returns whether it ended in time."""
        deadline = time.monotonic() + seconds
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        rest = min(_LINGER, max(0.0, deadline - time.monotonic()))
        self._report.join(rest)
        self._complaints.join(rest)
        return True

    def report(self) -> bytes:
        return bytes(self._report.data)

    def complaints(self) -> str:
        return bytes(self._complaints.data).decode("utf-8", "replace")

    def close(self) -> None:
        with contextlib.suppress(OSError):  # the group may be gone
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._stderr.close()
        self._report.close()
        self._complaints.close()


class _PipeReader(threading.Thread):
    def __init__(self, descriptor: int, limit: int) -> None:
        super().__init__(daemon=True)
        self.data = bytearray()
        self._descriptor = descriptor
        self._limit = limit
        self.start()

    @override
    def run(self) -> None:
        try:
            while chunk := os.read(self._descriptor, 1 << 16):
                if len(self.data) < self._limit:
                    self.data += chunk
        finally:
            os.close(self._descriptor)

    def close(self) -> None:
        # A process that left its group may keep the pipe open: the thread is a daemon and ends
        # with that process.
        self.join(_LINGER)


def _evaluated(file: str, report: bytes, complaints: str, code: int) -> Evaluated:
    problems = _complaints(file, complaints)
    if len(report) >= REPORT_LIMIT:
        return Evaluated(
            (), fault=problem_with_file(file, f"it configures more than {REPORT_LIMIT >> 20} MiB")
        )
    broken = next((each for each in problems if _SYNTAX.match(each.message)), None)
    if broken is not None:
        return Evaluated((), fault=broken)
    words = report.decode("utf-8", "replace").split("\0")[:-1]
    calls, has_ended = _calls(words)
    if not has_ended:
        if problems:
            return Evaluated((), tuple(problems[1:]), fault=problems[0])
        message = f"it ended before its last line, with exit code {code}"
        return Evaluated((), fault=problem_with_file(file, message))
    trees, mistakes = trees_of(calls)
    return Evaluated(tuple(trees), tuple([*problems, *mistakes][:PROBLEMS_LIMIT]))


def _calls(words: Sequence[str]) -> tuple[list[BuiltinCall], bool]:
    calls: list[BuiltinCall] = []
    position = 0
    while position < len(words):
        if words[position] == "end":
            return calls, True
        if words[position] != "call" or not words[position + 3].isdigit():
            break  # the program has written into the pipe itself
        count = int(words[position + 3])
        begin = position + 4
        calls.append(
            BuiltinCall(
                tuple(words[begin : begin + count]), words[position + 1], int(words[position + 2])
            )
        )
        position = begin + count
    return calls, False


def _complaints(file: str, text: str) -> list[Problem]:
    """Returns bash's own errors with their lines; the output of programs is dropped."""
    problems: list[Problem] = []
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is not None and len(problems) < PROBLEMS_LIMIT:
            message = found["message"][:300]
            problems.append(Problem(found["file"] or file, int(found["line"]), 1, message))
    return problems
