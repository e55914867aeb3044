"""Parses a symbol's name as a model writes it, and finds it in a text. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agents.tools.lsp.positions import Position, PositionedText
from agents.tools.lsp.responses import Symbol

_SEPARATORS = re.compile(r"::|[.\\#/]")
_CALL = re.compile(r"\(.*\)\s*\Z", re.DOTALL)
_DEFINES = (
    r"\b(?:class|const|constexpr|def|defp|enum|fn|fun|func|function|impl|interface|let|local|macro"
    r"|mod|module|namespace|package|proc|record|static|struct|sub|trait|type|typedef|union|val|var)\b"
)


@dataclass(frozen=True, slots=True)
class SymbolName:
    name: str
    containers: tuple[str, ...] = ()  # the outermost first

    @classmethod
    def parse(cls, written: str) -> SymbolName:
        """Parses names such as ``pkg.Class.method``, ``Class::method`` and ``function()``."""
        parts = [part for part in _SEPARATORS.split(_CALL.sub("", written.strip())) if part.strip()]
        if not parts:
            return cls(written.strip())
        return cls(parts[-1].strip(), tuple(part.strip() for part in parts[:-1]))

    @property
    def pattern(self) -> str:
        """A regular expression for the name that ripgrep and Python both accept."""
        start = r"\b" if re.match(r"\w", self.name) else ""
        end = r"\b" if re.search(r"\w\Z", self.name) else ""
        return f"{start}{re.escape(self.name)}{end}"

    def is_defined_by(self, line: str) -> bool:
        """Guesses from the words before the name; a wrong guess costs only one more request."""
        found = re.search(self.pattern, line)
        return found is not None and re.search(_DEFINES, line[: found.start()]) is not None

    def is_called(self, reported: str) -> bool:
        """Returns whether a server's name (``(*T).Name``, ``name(int)``) means this symbol."""
        bare = _CALL.sub("", reported).strip() if not reported.startswith("(") else reported
        return bare == self.name or bare.endswith((f".{self.name}", f"::{self.name}"))


@dataclass(frozen=True, slots=True)
class FoundSymbol:
    symbol: Symbol
    above: tuple[str, ...]  # the names of its containers


def matching(symbols: Sequence[Symbol], wanted: SymbolName) -> list[FoundSymbol]:
    """Returns the symbols of that name, preferring those inside the wanted containers."""
    found = [item for item in _walk(symbols, ()) if wanted.is_called(item.symbol.name)]
    if wanted.containers:
        inside = [item for item in found if _lies_in(item, wanted.containers)]
        return inside or found
    return found


def name_position(found: Symbol, wanted: SymbolName, text: PositionedText) -> Position:
    """Returns the position of the name: some servers report only the start of the definition."""
    start = text.offset(found.name_at)
    word = re.compile(wanted.pattern).search(text.text, start, text.offset(found.span.end))
    return text.position(word.start()) if word is not None else found.name_at


def occurrences(text: PositionedText, wanted: SymbolName, *, most: int) -> list[Position]:
    """Returns positions of the name as a word, likely definitions first."""
    pattern = re.compile(wanted.pattern)
    places: list[tuple[bool, int, int]] = []
    for number in range(text.line_count):
        line = text.line(number)
        defines = wanted.is_defined_by(line)
        for match in pattern.finditer(line):
            inside = bool(wanted.containers) and _follows(line, match.start(), wanted)
            places.append((not (defines or inside), number, match.start()))
        if len(places) > 50 * most:
            break
    starts = [text.position_in(number, column) for _, number, column in sorted(places)]
    return starts[:most]


def _follows(line: str, start: int, wanted: SymbolName) -> bool:
    before = re.escape(wanted.containers[-1])
    return re.search(rf"\b{before}\s*(?:::|[.\\#/])\s*\Z", line[:start]) is not None


def _walk(symbols: Sequence[Symbol], above: tuple[str, ...]) -> Iterator[FoundSymbol]:
    for symbol in symbols:
        own = (*above, symbol.container) if symbol.container else above
        yield FoundSymbol(symbol, own)
        yield from _walk(symbol.children, (*above, symbol.name))


def _lies_in(found: FoundSymbol, containers: tuple[str, ...]) -> bool:
    nearest = containers[-1]
    full_name = f".{'.'.join(found.above)}.{found.symbol.name}"
    return re.search(rf"(?<!\w){re.escape(nearest)}(?!\w)", full_name) is not None
