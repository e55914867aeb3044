"""Formats diagnostics and locations in code for a model.

It quotes only files of the workspace: a server may name any file of the machine, and
reading others needs permission. Quoting blocks: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.tools.contract import ToolContext, ToolRefusal
from agents.tools.files import text_file
from agents.tools.files.paths import is_inside, shown
from agents.tools.limits import MAX_TEXT_BYTES, cut_line
from agents.tools.lsp.diagnostics import Diagnostic, Severity
from agents.tools.lsp.positions import PositionedText
from agents.tools.lsp.responses import CodeLocation

_LINE_CHARS = 200
_FILES_QUOTED = 50
_MESSAGE_CHARS = 300
_NAMES = {
    Severity.ERROR: "Error",
    Severity.WARNING: "Warn",
    Severity.INFORMATION: "Info",
    Severity.HINT: "Hint",
}


@dataclass(frozen=True, slots=True)
class ReportedDiagnostic:
    """A diagnostic with its path and its server."""

    path: str  # as shown to the model
    server: str
    diagnostic: Diagnostic


def diagnostics_section(tag: str, diagnostics: Iterable[ReportedDiagnostic], *, most: int) -> str:
    """Returns an element with one line for each diagnostic, or an empty text."""
    ordered = sorted(diagnostics, key=_order)
    if not ordered:
        return ""
    lines = list(dict.fromkeys(_line(item) for item in ordered))
    listed = lines[:most]
    if len(lines) > most:
        listed.append(f"... and {len(lines) - most} more")
    return "\n".join([f"<{tag}>", *listed, f"</{tag}>"])


def diagnostics_summary(tag: str, diagnostics: Iterable[ReportedDiagnostic]) -> str:
    found = list(diagnostics)
    errors = sum(item.diagnostic.severity is Severity.ERROR for item in found)
    warnings = sum(item.diagnostic.severity is Severity.WARNING for item in found)
    return f"{tag}: {_counted(errors, 'error')}, {_counted(warnings, 'warning')}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _order(item: ReportedDiagnostic) -> tuple[int, str, int, int]:
    diagnostic = item.diagnostic
    return int(diagnostic.severity), item.path, diagnostic.line, diagnostic.character


def _line(item: ReportedDiagnostic) -> str:
    diagnostic = item.diagnostic
    message = " ".join(diagnostic.message.split())
    if len(message) > _MESSAGE_CHARS:
        message = f"{message[:_MESSAGE_CHARS]}..."
    source = item.server
    if diagnostic.source and diagnostic.source.lower() != item.server.lower():
        source += f" {diagnostic.source}"
    code = f" {diagnostic.code}" if diagnostic.code else ""
    place = f"{item.path}:{diagnostic.line + 1}:{diagnostic.character + 1}"
    return f"{_NAMES[diagnostic.severity]}: {place} [{source}{code}] {message}"


class QuotedFiles:
    """Lines of files, each read once."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._texts: dict[Path, PositionedText | None] = {}

    def line(self, path: Path, number: int) -> str:
        text = self._text(path)
        return cut_line(text.line(number).strip(), _LINE_CHARS) if text else ""

    def around(self, path: Path, number: int, *, lines: int) -> tuple[int, list[str]]:
        """Returns up to ``lines`` lines on each side, after the number of the first."""
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


def locations_by_file(places: Sequence[CodeLocation], context: ToolContext, *, most: int) -> str:
    """Lists each file once, with its locations and their lines."""
    quotes = QuotedFiles(context)
    blocks: list[str] = []
    grouped: dict[Path, list[CodeLocation]] = {}
    for place in places[:most]:
        grouped.setdefault(place.path, []).append(place)
    for path, several in grouped.items():
        lines = [f"{shown(path, context)}:"]
        for place in several:
            start = place.span.start
            quoted = quotes.line(path, start.line)
            position = f"  Line {start.line + 1}, column {start.character + 1}"
            lines.append(f"{position}: {quoted}" if quoted else position)
        blocks.append("\n".join(lines))
    if len(places) > most:
        blocks.append(f"(and {len(places) - most:,} more)")
    return "\n\n".join(blocks)
