"""Diagnostics as a model reads them: errors first, few, each on one line. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agents.tools.lsp.diagnostics import Diagnostic, Severity

_MESSAGE_CHARS = 300
_NAMES = {
    Severity.ERROR: "Error",
    Severity.WARNING: "Warn",
    Severity.INFORMATION: "Info",
    Severity.HINT: "Hint",
}


@dataclass(frozen=True, slots=True)
class Told:
    """A diagnostic with where it is and who says it."""

    path: str  # as it is shown
    server: str
    diagnostic: Diagnostic


def section(tag: str, told: Iterable[Told], *, most: int) -> str:
    """An element with one line for each, or nothing."""
    ordered = sorted(told, key=_order)
    if not ordered:
        return ""
    lines = list(dict.fromkeys(_line(item) for item in ordered))
    shown = lines[:most]
    if len(lines) > most:
        shown.append(f"... and {len(lines) - most} more")
    return "\n".join([f"<{tag}>", *shown, f"</{tag}>"])


def summary(tag: str, told: Iterable[Told]) -> str:
    found = list(told)
    errors = sum(item.diagnostic.severity is Severity.ERROR for item in found)
    warnings = sum(item.diagnostic.severity is Severity.WARNING for item in found)
    return f"{tag}: {_counted(errors, 'error')}, {_counted(warnings, 'warning')}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _order(item: Told) -> tuple[int, str, int, int]:
    diagnostic = item.diagnostic
    return int(diagnostic.severity), item.path, diagnostic.line, diagnostic.character


def _line(item: Told) -> str:
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
