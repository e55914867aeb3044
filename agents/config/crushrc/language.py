"""Interprets the calls of a ``crushrc``: builtin calls in, configuration trees out. Pure.

Bash evaluates the file and reports each call of a builtin with its place
(``bash``). A file becomes several trees, lowest precedence first: a removal must be merged
over the files below before the calls after it are added.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from agents.config.crushrc.flags import (
    CHOICE,
    FALSE,
    HOOK,
    LSP,
    MCP,
    MODEL,
    OPTION_FLAGS,
    OPTION_LISTS,
    OPTION_TEXTS,
    PROVIDER,
    TRUE,
    UI_OPTIONS,
    FlagSpec,
    FlagTable,
    Mistake,
    read_flag,
)
from agents.config.parse import Tree
from agents.config.problem import Problem

BUILTINS = ("provider", "model", "mcp", "lsp", "hook", "permissions", "option")


@dataclass(frozen=True, slots=True)
class BuiltinCall:
    """One call of a builtin, as bash reports it."""

    words: tuple[str, ...]  # the builtin's name first
    file: str
    line: int


def trees_of(calls: Sequence[BuiltinCall]) -> tuple[list[Tree], list[Problem]]:
    """Returns the trees that the calls configure, and a problem for each invalid call."""
    reading = _Interpreter()
    problems: list[Problem] = []
    for call in calls:
        try:
            reading.take(call.words)
        except Mistake as mistake:
            words = " ".join(call.words[:2])
            problems.append(Problem(call.file, call.line, 1, str(mistake), words))
    return [tree for tree in reading.trees if tree], problems


@dataclass(slots=True)
class _Interpreter:
    trees: list[Tree] = field(default_factory=lambda: [{}])

    @property
    def tree(self) -> Tree:
        return self.trees[-1]

    def take(self, words: Sequence[str]) -> None:
        name, rest = words[0], list(words[1:])
        match name:
            case "provider":
                self._named("providers", rest, PROVIDER)
            case "model":
                self._model(rest)
            case "mcp":
                self._named("mcp", rest, MCP)
            case "lsp":
                self._named("lsp", rest, LSP)
            case "hook":
                self._hook(rest)
            case "permissions":
                self._permissions(rest)
            case "option":
                self._option(rest)
            case _:
                raise Mistake("is not a builtin of crushrc")

    def _named(self, section: str, words: list[str], flags: FlagTable) -> None:
        verb, name = _verb(words), _argument(words, 1, "a name")
        if verb == "remove":
            _no_more(words[2:])
            self._remove(section, name)
        else:
            # A call with a mistake changes nothing.
            entry = copy.deepcopy((self.tree.get(section) or {}).get(name) or {})
            _set_flags(entry, words[2:], flags)
            self.tree.setdefault(section, {})[name] = entry

    def _remove(self, section: str, name: str) -> None:
        """Removes an entry from this file and from the files below it."""
        for tree in self.trees:
            (tree.get(section) or {}).pop(name, None)
        self.trees.append({section: {name: None}})
        self.trees.append({})

    def _model(self, words: list[str]) -> None:
        kind = _argument(words, 0, "add, remove, large or small")
        if kind in {"large", "small"}:
            self._choose(kind, words[1:])
            return
        verb = _verb(words)
        provider, model_id = _model_name(_argument(words, 1, "PROVIDER/ID"))
        if verb == "remove":
            _no_more(words[2:])
            for tree in self.trees:
                entry = (tree.get("providers") or {}).get(provider) or {}
                kept = [each for each in entry.get("models") or () if each["id"] != model_id]
                if "models" in entry:
                    entry["models"] = kept
            return
        known = (self.tree.get("providers") or {}).get(provider) or {}
        models = known.get("models") or []
        before = next((each for each in models if each["id"] == model_id), {"id": model_id})
        model = dict(before)
        _set_flags(model, words[2:], MODEL)
        others = [each for each in models if each["id"] != model_id]
        _entry(self.tree, "providers", provider)["models"] = [*others, model]

    def _choose(self, kind: str, words: list[str]) -> None:
        choice: Tree = dict((self.tree.get("models") or {}).get(kind) or {})
        if words and not words[0].startswith("--"):
            provider, model_id = _model_name(words[0])
            choice = {"provider": provider, "model": model_id}
            words = words[1:]
        _set_flags(choice, words, CHOICE)
        self.tree.setdefault("models", {})[kind] = choice

    def _hook(self, words: list[str]) -> None:
        verb, event = _verb(words), _argument(words, 1, "an event, such as PreToolUse")
        entry: Tree = {}
        _set_flags(entry, words[2:], HOOK)
        if verb == "add":
            if not entry.get("command"):
                raise Mistake("--command is missing")
            _entries(self.tree, "hooks", event).append(entry)
            return
        if set(entry) - {"name"}:
            raise Mistake("only --name selects a hook to remove")
        # Only hooks of this file are removed: a hook of another file stays.
        for tree in self.trees:
            hooks = (tree.get("hooks") or {}).get(event)
            if hooks is not None:
                hooks[:] = [
                    each for each in hooks if "name" in entry and each.get("name") != entry["name"]
                ]

    def _permissions(self, words: list[str]) -> None:
        verb, tools = _argument(words, 0, "allow or deny"), words[1:]
        if verb not in {"allow", "deny"}:
            raise Mistake(f"{verb!r} is not allow or deny")
        if not tools:
            raise Mistake("needs a tool")
        section, key = (
            ("permissions", "allowed_tools") if verb == "allow" else ("options", "disabled_tools")
        )
        _entries(self.tree, section, key).extend(tools)

    def _option(self, words: list[str]) -> None:
        name = _argument(words, 0, "an option")
        if name == "ui":
            self._ui(words[1:])
        elif name == "reset":
            key = OPTION_LISTS.get(_argument(words, 1, "an option that holds a list"))
            if key is None:
                raise Mistake(f"{words[1]!r} is not an option that holds a list")
            for tree in self.trees:
                (tree.get("options") or {}).pop(key, None)
            self.trees.append({"options": {key: None}})
            self.trees.append({})
        elif name in OPTION_FLAGS:
            key, is_same = OPTION_FLAGS[name]
            value = read_flag(words[1]) if len(words) > 1 else True
            _no_more(words[2:])
            _put(self.tree.setdefault("options", {}), key, value is is_same)
        elif name in OPTION_TEXTS:
            _no_more(words[2:])
            text = _argument(words, 1, "a value")
            _put(self.tree.setdefault("options", {}), OPTION_TEXTS[name], text)
        elif name in OPTION_LISTS:
            _no_more(words[2:])
            _entries(self.tree, "options", OPTION_LISTS[name]).append(
                _argument(words, 1, "a value")
            )
        else:
            known = [*OPTION_FLAGS, *OPTION_TEXTS, *OPTION_LISTS, "ui", "reset"]
            raise Mistake(f"{name!r} is not an option{_meant(name, known)}")

    def _ui(self, words: list[str]) -> None:
        name = _argument(words, 0, "an option of the interface")
        if name not in UI_OPTIONS:
            raise Mistake(f"{name!r} is not an option of the interface{_meant(name, UI_OPTIONS)}")
        key, read = UI_OPTIONS[name]
        _no_more(words[2:])
        _put(self.tree.setdefault("options", {}), key, read(_argument(words, 1, "a value")))


def _verb(words: Sequence[str]) -> str:
    word = _argument(words, 0, "add or remove")
    if word in {"remove", "rm"}:
        return "remove"
    if word != "add":
        raise Mistake(f"{word!r} is not add or remove")
    return word


def _argument(words: Sequence[str], index: int, what: str) -> str:
    if len(words) <= index or not words[index] or words[index].startswith("--"):
        raise Mistake(f"needs {what}")
    return words[index]


def _no_more(words: Sequence[str]) -> None:
    if words:
        raise Mistake(f"unexpected word {words[0]!r}")


def _model_name(text: str) -> tuple[str, str]:
    provider, _, model_id = text.partition("/")
    if not provider or not model_id:
        raise Mistake(f"{text!r} is not of the form PROVIDER/ID")
    return provider, model_id


def _set_flags(entry: Tree, words: list[str], flags: FlagTable) -> None:
    """Puts each flag into the entry; a repeated flag adds to the earlier ones of this call."""
    fresh: set[str] = set()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, has_value, value = word.partition("=")
        flag = flags.get(name)
        if flag is None:
            raise Mistake(f"{name!r} is not a known flag{_meant(name, flags)}")
        if has_value:
            rest.insert(0, value)
        if flag.is_switch and not has_value and (not rest or rest[0].lower() not in TRUE | FALSE):
            _put(entry, flag.key, True)
            continue
        if len(rest) < flag.words:
            raise Mistake(f"{name} needs {'a value' if flag.words == 1 else 'a name and a value'}")
        taken = [rest.pop(0) for _ in range(flag.words)]
        _add(entry, flag, taken, is_first=flag.key not in fresh)
        fresh.add(flag.key)


def _add(entry: Tree, flag: FlagSpec, words: Sequence[str], *, is_first: bool) -> None:
    if flag.words == 2:
        entry.setdefault(flag.key, {})[words[0]] = words[1]
    elif flag.repeats:
        if is_first:
            entry[flag.key] = []
        entry[flag.key].append(words[0])
    else:
        _put(entry, flag.key, flag.read(words[0]))


def _put(entry: Tree, key: str, value: Any) -> None:
    *path, last = key.split(".")
    for name in path:
        entry = entry.setdefault(name, {})
    entry[last] = value


def _entry(tree: Tree, section: str, name: str) -> Tree:
    entry: Tree = tree.setdefault(section, {}).setdefault(name, {})
    return entry


def _entries(tree: Tree, section: str, name: str) -> list[Any]:
    entries: list[Any] = tree.setdefault(section, {}).setdefault(name, [])
    return entries


def _meant(word: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
