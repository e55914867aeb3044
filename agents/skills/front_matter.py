"""Reads the front matter of a Markdown file: the small part of YAML that people write there. Pure.

Reads texts (plain, quoted, folded, literal) and one level of names below a name. Deeper or
other values become ``None``; what cannot be parsed raises, with the line. Does not know what
the names mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

# ``None``: a list or something deeper, which nobody here needs.
Value: TypeAlias = str | Mapping[str, str] | None

FENCE = "---"
_ENTRY = re.compile(r"(?P<key>[A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]+(?P<rest>.*))?$")
_BLOCK = re.compile(r"(?P<style>[>|])(?:(?P<keep>[+-])|(?P<width>[1-9])){0,2}(?:\s+#.*)?$")
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.)|$)", re.DOTALL
)
_ESCAPED = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    '"': '"',
    "\\": "\\",
    "/": "/",
    " ": " ",
    "0": "",
    "e": "",
}
_REFUSED = "&*!%@`"  # anchors, tags and what YAML keeps for itself


class BrokenFrontMatter(Exception):
    """A sentence that names the line."""


def split(text: str) -> tuple[list[str], str]:
    """The lines between the fences, and all that follows. Raises ``BrokenFrontMatter``."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[0].rstrip() != FENCE:
        raise BrokenFrontMatter(f"line 1: the file must begin with {FENCE}")
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() == FENCE:
            return lines[1:number], "\n".join(lines[number + 1 :]).strip()
    raise BrokenFrontMatter(f"the front matter is not closed with {FENCE}")


def read_entries(lines: list[str]) -> dict[str, Value]:
    """Raises ``BrokenFrontMatter``."""
    return _EntryReader(lines).entries()


class _EntryReader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def entries(self) -> dict[str, Value]:
        found: dict[str, Value] = {}
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if _is_empty(line):
                self._at += 1
                continue
            entry = _ENTRY.match(line.rstrip())
            if entry is None:
                raise self._broken("is not 'name: value'")
            if entry["key"] in found:
                raise self._broken(f"repeats {entry['key']}")
            found[entry["key"]] = self._value((entry["rest"] or "").strip())
        return found

    def _value(self, rest: str) -> Value:
        """Leaves the reader behind the value."""
        if (block := _BLOCK.match(rest)) is not None:
            return self._block(block)
        if not rest or rest.startswith("#"):
            return self._below()
        if rest[0] in "\"'":
            return self._quoted(rest)
        if rest[0] in _REFUSED:
            raise self._broken(f"begins with {rest[0]}: put the text in quotes")
        more = self._indented()
        if rest[0] in "[{":
            return None
        pieces = [_without_comment(piece) for piece in (rest, *more)]
        return " ".join(piece for piece in pieces if piece)

    def _below(self) -> Value:
        start = self._at + 1
        lines = [line for line in self._indented(lists=True) if not _is_empty(line)]
        if not lines:
            return ""
        entries = [_ENTRY.match(line) for line in lines]
        level = _level(self._lines, start)
        flat = all(
            _indent(line) == level for line in self._lines[start : self._at] if not _is_empty(line)
        )
        if not flat or any(
            entry is None or (entry["rest"] or "").startswith(tuple("[{>|&*!")) for entry in entries
        ):
            return None
        return {
            entry["key"]: _scalar(entry["rest"] or "") for entry in entries if entry is not None
        }

    def _block(self, block: re.Match[str]) -> str:
        """``>`` joins lines, ``|`` keeps them."""
        self._at += 1
        start = self._at
        while self._at < len(self._lines) and (
            not self._lines[self._at].strip() or _indent(self._lines[self._at])
        ):
            self._at += 1
        lines = self._lines[start : self._at]
        width = int(block["width"] or 0) or min((_indent(x) for x in lines if x.strip()), default=0)
        kept = [line[width:].rstrip() for line in lines]
        if block["style"] == "|":
            return "\n".join(kept).strip("\n")
        paragraphs = re.split(r"\n{2,}", "\n".join(kept).strip("\n"))
        return "\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)

    def _quoted(self, rest: str) -> str:
        """Over as many indented lines as it takes to close it."""
        start = self._at
        text = " ".join((rest[1:], *self._indented()))
        end = _closing(text, rest[0])
        behind = text[end + 1 :].strip()
        if end < 0 or (behind and not behind.startswith("#")):
            self._at = start
            raise self._broken("does not end with its closing quote")
        return _unquoted(text[:end], rest[0])

    def _indented(self, *, lists: bool = False) -> list[str]:
        """The lines that belong to the current one, without their indent; leaves it behind."""
        self._at += 1
        taken: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("\t"):
                raise self._broken("is indented with a tab: use spaces")
            if line.strip() and not line.startswith(" ") and not (lists and _is_item(line)):
                break
            taken.append(line.strip())
            self._at += 1
        return taken

    def _broken(self, what: str) -> BrokenFrontMatter:
        # As an editor counts: the fence is line 1.
        return BrokenFrontMatter(f"line {self._at + 2}: {what}")


def _is_empty(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _is_item(line: str) -> bool:
    return line == "-" or line.startswith("- ")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _level(lines: list[str], start: int) -> int:
    return next((_indent(line) for line in lines[start:] if not _is_empty(line)), 0)


def _scalar(rest: str) -> str:
    rest = rest.strip()
    if rest[:1] in {'"', "'"} and (end := _closing(rest[1:], rest[0])) >= 0:
        return _unquoted(rest[1 : end + 1], rest[0])
    return _without_comment(rest)


def _without_comment(text: str) -> str:
    if text.startswith("#"):
        return ""
    return re.split(r"\s#", text, maxsplit=1)[0].strip()


def _closing(text: str, quote: str) -> int:
    """Where the quoted text ends; negative when it does not."""
    at = 0
    while at < len(text):
        if quote == '"' and text[at] == "\\":
            at += 2
        elif text[at] == quote:
            if quote == "'" and text[at + 1 : at + 2] == "'":
                at += 2
            else:
                return at
        else:
            at += 1
    return -1


def _unquoted(text: str, quote: str) -> str:
    if quote == "'":
        return text.replace("''", "'")
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code is None:
        return _ESCAPED.get(match[4] or "", match[4] or "")
    number = int(code, 16)
    # No half of a pair and nothing that cannot be stored.
    return (
        "\ufffd" if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF or not number else chr(number)
    )
