"""Searches for a command line that a judge calls read-only and that changes something."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.integration.permissions.fuzzing.command_lines import CommandLines
from tests.integration.permissions.fuzzing.sandbox import Sandbox

_AT_ONCE = 24


@dataclass(frozen=True, slots=True)
class Finding:
    lines: tuple[str, ...]  # one, unless only several together have the effect
    effects: tuple[str, ...]


@dataclass(slots=True)
class Result:
    seed: int
    generated: int = 0
    run: int = 0
    findings: list[Finding] | None = None

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.generated:,} generated, {self.run:,} run"


def search(
    judge: Callable[[str], bool], *, seed: int, seconds: float, sandbox: Sandbox, most: int = 1
) -> Result:
    """Ends after ``seconds``, or with ``most`` findings."""
    end = time.monotonic() + seconds
    result = Result(seed, findings=[])
    findings = result.findings = []
    passed: list[str] = []
    seen: set[str] = set()
    for line in CommandLines(seed):
        if time.monotonic() > end or len(findings) >= most:
            break
        result.generated += 1
        if line in seen or "\0" in line or not judge(line):
            continue
        seen.add(line)
        passed.append(line)
        if len(passed) == _AT_ONCE:
            findings += _findings(passed, sandbox)
            result.run += len(passed)
            passed.clear()
    return result


def _findings(lines: Sequence[str], sandbox: Sandbox) -> list[Finding]:
    effects = sandbox.effects(lines)
    if not effects:
        return []
    alone = [Finding((line,), tuple(sandbox.effects([line]))) for line in lines]
    return [finding for finding in alone if finding.effects] or [
        Finding(tuple(lines), tuple(effects))
    ]
