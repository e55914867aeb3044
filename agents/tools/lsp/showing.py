"""Places in files as a model reads them, with the lines that stand there.

Only the workspace's own files are quoted: a server may name any file of the
machine, and reading those is asked for elsewhere. Blocks: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agents.tools.contract import ToolContext, ToolRefusal
from agents.tools.files import text_file
from agents.tools.files.paths import is_inside, shown
from agents.tools.limits import MAX_TEXT_BYTES, cut_line
from agents.tools.lsp.answers import CodeLocation
from agents.tools.lsp.positions import PositionedText

_LINE_CHARS = 200
_FILES_QUOTED = 50


class Quotes:
    """Lines of files, each read once."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._texts: dict[Path, PositionedText | None] = {}

    def line(self, path: Path, number: int) -> str:
        text = self._text(path)
        return cut_line(text.line(number).strip(), _LINE_CHARS) if text else ""

    def around(self, path: Path, number: int, *, lines: int) -> tuple[int, list[str]]:
        """The first line's number and the lines, up to so many on each side."""
        text = self._text(path)
        if text is None or number >= text.line_count:
            return 0, []
        first = max(0, number - lines)
        last = min(text.line_count, number + lines + 1)
        return first, [cut_line(text.line(n), 4 * _LINE_CHARS) for n in range(first, last)]

    def _text(self, path: Path) -> PositionedText | None:
        if path not in self._texts:
            self._texts[path] = self._read(path) if len(self._texts) < _FILES_QUOTED else None
        return self._texts[path]

    def _read(self, path: Path) -> PositionedText | None:
        try:
            resolved = path.resolve()
            if not is_inside(resolved, self._context.working_dir):
                return None
            return PositionedText(text_file.read(resolved, max_bytes=MAX_TEXT_BYTES).text)
        except (OSError, ToolRefusal, RuntimeError):
            return None


def by_file(places: Sequence[CodeLocation], context: ToolContext, *, most: int) -> str:
    """Each file once, with its places and their lines."""
    quotes = Quotes(context)
    blocks: list[str] = []
    grouped: dict[Path, list[CodeLocation]] = {}
    for place in places[:most]:
        grouped.setdefault(place.path, []).append(place)
    for path, several in grouped.items():
        lines = [f"{shown(path, context)}:"]
        for place in several:
            start = place.span.start
            quoted = quotes.line(path, start.line)
            told = f"  Line {start.line + 1}, column {start.character + 1}"
            lines.append(f"{told}: {quoted}" if quoted else told)
        blocks.append("\n".join(lines))
    if len(places) > most:
        blocks.append(f"(and {len(places) - most:,} more)")
    return "\n\n".join(blocks)
