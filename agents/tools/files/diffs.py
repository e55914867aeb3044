"""The changes between two texts: a unified diff, and the counts of added and removed lines.

Pure. Texts that differ in very many lines are counted but not aligned, because the time
to align them grows with the square of their size.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

_ALIGN_PRODUCT = 4_000_000  # changed lines before × after; about a second at worst
_CONTEXT_LINES = 3


@dataclass(frozen=True, slots=True)
class Diff:
    text: str
    additions: int
    removals: int


def unified(before: str, after: str, *, path: str) -> Diff:
    """Returns the diff between two versions of ``path``; empty if they are equal."""
    old, new = _lines(before), _lines(after)
    # Skip equal lines at both ends: that is cheap, and most edits are small.
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    if start == len(old) == len(new):
        return Diff("", 0, 0)
    gone, came = old[start : len(old) - end], new[start : len(new) - end]
    if len(gone) * len(came) > _ALIGN_PRODUCT:
        hunks = [_block(old, new, start, end)]
        removals, additions = len(gone), len(came)
    else:
        lead = max(0, start - _CONTEXT_LINES)
        trail = max(0, end - _CONTEXT_LINES)
        body = difflib.unified_diff(
            old[lead : len(old) - trail], new[lead : len(new) - trail], n=_CONTEXT_LINES
        )
        lines = [_shifted(line, lead) for line in list(body)[2:]]
        removals = sum(line.startswith("-") for line in lines)
        additions = sum(line.startswith("+") for line in lines)
        hunks = lines
    return Diff("".join([f"--- a/{path}\n", f"+++ b/{path}\n", *hunks]), additions, removals)


def _lines(text: str) -> list[str]:
    """Splits into lines with their ends; marks a missing last line end as ``diff`` does."""
    lines = text.split("\n")
    last = lines.pop()
    ended = [f"{line}\n" for line in lines]
    return [*ended, f"{last}\n\\ No newline at end of file\n"] if last else ended


def _block(old: list[str], new: list[str], start: int, end: int) -> str:
    gone, came = old[start : len(old) - end], new[start : len(new) - end]
    head = f"@@ -{start + 1},{len(gone)} +{start + 1},{len(came)} @@\n"
    return head + "".join(f"-{line}" for line in gone) + "".join(f"+{line}" for line in came)


def _shifted(line: str, lead: int) -> str:
    """Returns a hunk's header with line numbers counted from the start of the file."""
    if not lead or not line.startswith("@@ "):
        return line
    _, old, new, tail = line.split(" ", 3)
    return f"@@ {_moved(old, lead)} {_moved(new, lead)} {tail}"


def _moved(span: str, lead: int) -> str:
    sign, rest = span[0], span[1:]
    first, comma, length = rest.partition(",")
    return f"{sign}{int(first) + lead}{comma}{length}"
