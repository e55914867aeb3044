"""Writes a configuration in the other of its two formats: ``crush.json`` or ``crushrc``. Pure.

Nothing is lost silently: the caller gets the keys that the other format cannot express.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.config.crushrc.flags import (
    CHOICE,
    HOOK,
    LSP,
    MCP,
    MODEL,
    OPTION_FLAGS,
    OPTION_LISTS,
    OPTION_TEXTS,
    PROVIDER,
    UI_OPTIONS,
    FlagTable,
)
from agents.config.merge import merge
from agents.config.parse import Tree

_HEADER = "# Configuration of the Crush server and its clients, evaluated by bash."


def as_json(trees: Iterable[Tree]) -> str:
    merged: Tree = {}
    for tree in trees:
        merged = merge(merged, tree)
    return json.dumps(merged, indent=2, ensure_ascii=False) + "\n"


@dataclass(slots=True)
class _Writing:
    lines: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def call(self, *words: str) -> None:
        self.lines.append(" ".join(shlex.quote(word) for word in words))


def as_crushrc(tree: Tree) -> tuple[str, list[str]]:
    """Returns the text of a crushrc, and the dotted keys that it cannot express."""
    writing = _Writing()
    for section in tree:
        value = tree[section]
        if section == "$schema":
            continue
        if not isinstance(value, dict) or section not in _SECTIONS:
            writing.left_out.append(section)
            continue
        _SECTIONS[section](writing, value)
    comments = [f"# Not expressible here, keep it in crush.json: {key}" for key in writing.left_out]
    return "\n".join([_HEADER, *comments, *writing.lines]) + "\n", writing.left_out


def _providers(writing: _Writing, providers: Mapping[str, Any]) -> None:
    for name, entry in providers.items():
        if entry is None:
            writing.call("provider", "remove", name)
            continue
        own = {key: value for key, value in entry.items() if key not in {"models", "id"}}
        _named(writing, ("provider", "add", name), own, PROVIDER, f"providers.{name}")
        for model in entry.get("models") or ():
            words = ("model", "add", f"{name}/{model['id']}")
            flags = {key: value for key, value in model.items() if key != "id"}
            _named(writing, words, flags, MODEL, f"providers.{name}.models.{model['id']}")


def _models(writing: _Writing, models: Mapping[str, Any]) -> None:
    for kind, choice in models.items():
        if kind not in {"large", "small"} or not choice:
            writing.left_out.append(f"models.{kind}")
            continue
        name = f"{choice.get('provider')}/{choice.get('model')}"
        flags = {key: value for key, value in choice.items() if key not in {"provider", "model"}}
        _named(writing, ("model", kind, name), flags, CHOICE, f"models.{kind}")


def _mcp(writing: _Writing, servers: Mapping[str, Any]) -> None:
    _servers(writing, "mcp", servers, MCP)


def _lsp(writing: _Writing, servers: Mapping[str, Any]) -> None:
    _servers(writing, "lsp", servers, LSP)


def _servers(writing: _Writing, section: str, servers: Mapping[str, Any], flags: FlagTable) -> None:
    for name, entry in servers.items():
        if entry is None:
            writing.call(section, "remove", name)
        else:
            _named(writing, (section, "add", name), entry, flags, f"{section}.{name}")


def _hooks(writing: _Writing, hooks: Mapping[str, Any]) -> None:
    for event, entries in hooks.items():
        for index, entry in enumerate(entries or ()):
            key = f"hooks.{event}[{index}]"
            _named(writing, ("hook", "add", event), entry, HOOK, key)


def _permissions(writing: _Writing, permissions: Mapping[str, Any]) -> None:
    for key, value in permissions.items():
        if key == "allowed_tools" and value:
            writing.call("permissions", "allow", *value)
        else:
            writing.left_out.append(f"permissions.{key}")


def _options(writing: _Writing, options: Mapping[str, Any]) -> None:
    flags = {key: (name, is_same) for name, (key, is_same) in OPTION_FLAGS.items()}
    texts = {key: name for name, key in OPTION_TEXTS.items()}
    lists = {key: name for name, key in OPTION_LISTS.items()}
    interface = {key: name for name, (key, _) in UI_OPTIONS.items()}
    for key, value in _leaves(options):
        if key in lists and value is None:
            writing.call("option", "reset", lists[key])
        elif value is None:
            writing.left_out.append(f"options.{key}")
        elif key in flags:
            name, is_same = flags[key]
            writing.call("option", name, _word(value is is_same))
        elif key in texts:
            writing.call("option", texts[key], str(value))
        elif key in interface:
            writing.call("option", "ui", interface[key], _word(value))
        elif key in lists:
            for item in value:
                writing.call("option", lists[key], item)
        elif key == "disabled_tools":
            writing.call("permissions", "deny", *value)
        else:
            writing.left_out.append(f"options.{key}")


_SECTIONS = {
    "providers": _providers,
    "models": _models,
    "mcp": _mcp,
    "lsp": _lsp,
    "hooks": _hooks,
    "permissions": _permissions,
    "options": _options,
}


def _leaves(options: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in options.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _named(
    writing: _Writing,
    words: Sequence[str],
    entry: Mapping[str, Any],
    flags: FlagTable,
    place: str,
) -> None:
    names = {flag.key: (name, flag) for name, flag in flags.items()}
    line = list(words)
    for key, value in entry.items():
        known = names.get(key)
        if known is None or value is None:
            writing.left_out.append(f"{place}.{key}")
            continue
        name, flag = known
        if flag.words == 2:
            for one, other in value.items():
                line += [name, one, other]
        elif flag.repeats:
            for item in value:
                line += [name, item]
        else:
            line += [name, _word(value)]
    writing.call(*line)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
