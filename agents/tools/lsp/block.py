"""A symbol's text within a file, and the file with it changed. Pure.

A symbol that has its lines for itself is changed by whole lines; one beside
other code just where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence

ACTIONS = ("replace", "add_before", "add_after", "delete")
_CLOSERS = ("}", ")", "]", "end")


class Block:
    def __init__(self, text: str, start: int, end: int) -> None:
        """From ``start`` to ``end``; both are moved to line bounds where nothing else stands."""
        self._text = text
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", end)
        line_end = len(text) if line_end < 0 else line_end
        before, after = text[line_start:start], text[end:line_end]
        self._is_whole = not before.strip() and not after.strip()
        self._indent = before if not before.strip() else ""
        self._start = line_start if self._is_whole else start
        self._end = line_end if self._is_whole else end

    def changed(self, action: str, given: str) -> str:
        head, own, tail = (
            self._text[: self._start],
            self._text[self._start : self._end],
            self._text[self._end :],
        )
        if not self._is_whole:
            return head + _beside(action, own, given) + tail
        given = self._indented(given.removesuffix("\n"))
        if action == "replace":
            return head + given + tail
        if action == "add_before":
            return f"{head}{given}\n{own}{tail}"
        if action == "add_after":
            return f"{head}{own}\n{given}{tail or chr(10)}"
        return _closed_up(head, tail)

    def _indented(self, given: str) -> str:
        """As deep as the symbol, where it was written without regard to that."""
        lines = given.split("\n")
        written = [line for line in lines if line.strip()]
        if not self._indent or not written or written[0][0].isspace():
            return given
        first = lines.index(written[0])
        if len(written) > 1 and self._is_in_place(written[1:]):
            lines[first] = self._indent + lines[first]  # only its first line was cut short
            return "\n".join(lines)
        return "\n".join(self._indent + line if line.strip() else line for line in lines)

    def _is_in_place(self, body: Sequence[str]) -> bool:
        """Lines below a head that already stand as deep as the file needs them."""
        depth = _shallowest(body)
        closes = _depth(body[-1]) == depth and body[-1].lstrip().startswith(_CLOSERS)
        return depth > len(self._indent) or (depth == len(self._indent) and closes)


def _shallowest(lines: Sequence[str]) -> int:
    return min(_depth(line) for line in lines)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _beside(action: str, own: str, given: str) -> str:
    if action == "replace":
        return given
    if action == "add_before":
        return given + own
    if action == "add_after":
        return own + given
    return ""


def _closed_up(head: str, tail: str) -> str:
    """Without the line, and without the blank lines that would be left double."""
    tail = tail.removeprefix("\n")
    if not head or head.endswith("\n\n"):
        while tail.startswith("\n"):
            tail = tail[1:]
    return head + tail
