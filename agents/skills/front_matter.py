"""Reads the front matter of a Markdown file: YAML between two fences. Pure.

Every value becomes a text, one level of names below a name, or ``None`` for anything else. Works
on YAML's nodes, so no object is ever constructed. The names have no meaning here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

import yaml
from typing_extensions import override
from yaml.nodes import MappingNode, Node, ScalarNode

# ``None``: a list or a deeper value, which is not needed here.
Value: TypeAlias = str | Mapping[str, str] | None

FENCE = "---"
DEPTH_LIMIT = 10  # PyYAML recurses, and takes seconds for thousands of open brackets
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_ENTRY = re.compile(r"(?P<key>[A-Za-z_][\w.-]*:[ \t]+)(?P<rest>[^\s\"'\[{>|&*!%@`#?-].*)")


class BrokenFrontMatter(Exception):
    """The front matter cannot be parsed; the message names the line."""


def split(text: str) -> tuple[list[str], str]:
    """Returns the lines between the fences, and the text below. Raises ``BrokenFrontMatter``."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[0].rstrip() != FENCE:
        raise BrokenFrontMatter(f"line 1: the file must begin with {FENCE}")
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() == FENCE:
            return lines[1:number], "\n".join(lines[number + 1 :]).strip()
    raise BrokenFrontMatter(f"the front matter is not closed with {FENCE}")


def read_entries(lines: list[str]) -> dict[str, Value]:
    """Returns the entries of the front matter. Raises ``BrokenFrontMatter``."""
    try:
        node = _compose("\n".join(lines))
    except BrokenFrontMatter:
        quoted = [_quote_colons(line) for line in lines]
        if quoted == lines:
            raise
        node = _compose("\n".join(quoted))
    if node is None:
        return {}
    if not isinstance(node, MappingNode):
        raise _broken(node.start_mark, "is not 'name: value'")
    return {name: _value(value) for name, value in _items(node)}


class _Loader(yaml.SafeLoader):
    """Composes nodes without aliases, tags and deep nesting: the cost stays near the size."""

    _depth = 0

    @override
    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # its stub has no types
        if event.anchor is not None:
            raise _broken(event.start_mark, "has an anchor or alias: put the text in quotes")
        if getattr(event, "tag", None) is not None:
            raise _broken(event.start_mark, "has a tag: put the text in quotes")
        if self._depth >= DEPTH_LIMIT:
            raise _broken(event.start_mark, f"is nested more than {DEPTH_LIMIT} levels deep")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _compose(text: str) -> Node | None:
    try:
        return yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise _broken(error.problem_mark, error.problem or "is not YAML") from None
    except yaml.YAMLError:
        raise BrokenFrontMatter("the front matter contains a control character") from None


def _quote_colons(line: str) -> str:
    """``description: Use it when: it breaks`` is not YAML, but many skills have such lines."""
    entry = _ENTRY.fullmatch(line)
    if entry is None:
        return line
    text = re.split(r"\s#", entry["rest"], maxsplit=1)[0].strip().replace("'", "''")
    return f"{entry['key']}'{text}'" if ": " in text else line


def _items(node: MappingNode) -> list[tuple[str, Node]]:
    items: dict[str, Node] = {}
    for key, value in node.value:
        if not isinstance(key, ScalarNode):
            raise _broken(key.start_mark, "is not 'name: value'")
        if key.value in items:
            raise _broken(key.start_mark, f"repeats {key.value}")
        items[key.value] = value
    return list(items.items())


def _value(node: Node) -> Value:
    if isinstance(node, ScalarNode):
        return _text(node)
    if not isinstance(node, MappingNode):
        return None
    below = _items(node)
    texts = {name: _text(value) for name, value in below if isinstance(value, ScalarNode)}
    return texts if len(texts) == len(below) else None


def _text(node: ScalarNode) -> str:
    text: str = _UNSTORABLE.sub("\ufffd", node.value)
    return text.strip("\n") if node.style in {"|", ">"} else text


def _broken(mark: yaml.Mark | None, what: str) -> BrokenFrontMatter:
    # Counted from the top of the file, where the fence is line 1.
    return BrokenFrontMatter(f"line {mark.line + 2}: {what}" if mark else what)
