"""What the lines of a ``crushrc`` mean: calls of its builtins in, configuration trees out. Pure.

Bash evaluates the file and reports each call of a builtin with its place
(``crushrc_bash``). A file becomes several trees, lowest precedence first: what removes or
empties something must be laid over the files below before what comes after it is added.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeAlias

from agents.config.parse import Tree
from agents.config.problem import Problem

BUILTINS = ("provider", "model", "mcp", "lsp", "hook", "permissions", "option")
_TRUE = frozenset({"true", "1", "yes"})
_FALSE = frozenset({"false", "0", "no"})


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a builtin, as bash reports it."""

    words: tuple[str, ...]  # the builtin's name first
    file: str
    line: int


class _Mistake(Exception):
    """What is wrong with one call; the rest of the file counts."""


@dataclass(frozen=True, slots=True)
class Flag:
    key: str  # dotted: where the value stands in the entry
    read: Callable[[str], Any] = str
    words: int = 1  # how many words it takes; 2 are a name and a value
    repeats: bool = False
    is_switch: bool = False  # its value may be left out: true


FlagTable: TypeAlias = Mapping[str, Flag]


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise _Mistake(f"{text!r} is not a whole number")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _Mistake(f"{text!r} is not a number") from None


def _flag_value(text: str) -> bool:
    word = text.lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise _Mistake(f"{text!r} is not true or false")


def _object(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise _Mistake("the value is not JSON") from None
    if not isinstance(value, dict):
        raise _Mistake("the value must be a JSON object")
    return value


def _switch(key: str) -> Flag:
    return Flag(key, _flag_value, is_switch=True)


def _list(key: str) -> Flag:
    return Flag(key, repeats=True)


def _pairs(key: str) -> Flag:
    return Flag(key, words=2, repeats=True)


PROVIDER: FlagTable = {
    "--name": Flag("name"),
    "--type": Flag("type"),
    "--api-key": Flag("api_key"),
    "--base-url": Flag("base_url"),
    "--disable": _switch("disable"),
    "--flat-rate": _switch("flat_rate"),
    "--discover-models": _switch("discover_models"),
    "--system-prompt-prefix": Flag("system_prompt_prefix"),
    "--extra-header": _pairs("extra_headers"),
    "--extra-body": Flag("extra_body", _object),
    "--provider-options": Flag("provider_options", _object),
}
MODEL: FlagTable = {
    "--name": Flag("name"),
    "--context-window": Flag("context_window", _whole),
    "--default-max-tokens": Flag("default_max_tokens", _whole),
    "--can-reason": _switch("can_reason"),
    "--supports-images": _switch("supports_attachments"),
    "--price-input": Flag("cost_per_1m_in", _number),
    "--price-output": Flag("cost_per_1m_out", _number),
    "--price-cache-create": Flag("cost_per_1m_in_cached", _number),
    "--price-cache-hit": Flag("cost_per_1m_out_cached", _number),
    "--reasoning-effort": Flag("default_reasoning_effort"),
}
CHOICE: FlagTable = {
    "--think": _switch("think"),
    "--reasoning-effort": Flag("reasoning_effort"),
    "--max-tokens": Flag("max_tokens", _whole),
    "--temperature": Flag("temperature", _number),
    "--top-p": Flag("top_p", _number),
    "--top-k": Flag("top_k", _whole),
    "--frequency-penalty": Flag("frequency_penalty", _number),
    "--presence-penalty": Flag("presence_penalty", _number),
    "--provider-options": Flag("provider_options", _object),
}
MCP: FlagTable = {
    "--type": Flag("type"),
    "--command": Flag("command"),
    "--args": _list("args"),
    "--env": _pairs("env"),
    "--url": Flag("url"),
    "--header": _pairs("headers"),
    "--timeout": Flag("timeout", _whole),
    "--disabled": _switch("disabled"),
    "--disabled-tools": _list("disabled_tools"),
    "--enabled-tools": _list("enabled_tools"),
    "--oauth": _switch("oauth"),
    "--oauth-client-id": Flag("oauth_client_id"),
    "--oauth-client-secret": Flag("oauth_client_secret"),
    "--oauth-callback-port": Flag("oauth_callback_port", _whole),
}
LSP: FlagTable = {
    "--command": Flag("command"),
    "--args": _list("args"),
    "--env": _pairs("env"),
    "--filetypes": _list("filetypes"),
    "--root-markers": _list("root_markers"),
    "--timeout": Flag("timeout", _whole),
    "--disabled": _switch("disabled"),
    "--init-options": Flag("init_options", _object),
    "--options": Flag("options", _object),
}
HOOK: FlagTable = {
    "--command": Flag("command"),
    "--name": Flag("name"),
    "--matcher": Flag("matcher"),
    "--timeout": Flag("timeout", _whole),
}
# An option's key in JSON, how its value is read, and whether JSON says the opposite.
OPTION_FLAGS: Mapping[str, tuple[str, bool]] = {
    "debug": ("debug", True),
    "debug-lsp": ("debug_lsp", True),
    "auto-lsp": ("auto_lsp", True),
    "progress": ("progress", True),
    "metrics": ("disable_metrics", False),
    "auto-summarize": ("disable_auto_summarize", False),
    "provider-auto-update": ("disable_provider_auto_update", False),
    "default-providers": ("disable_default_providers", False),
    "attribution-generated-with": ("attribution.generated_with", True),
}
OPTION_TEXTS: Mapping[str, str] = {
    "data-directory": "data_directory",
    "initialize-as": "initialize_as",
    "notifications": "notifications",
    "attribution-trailer-style": "attribution.trailer_style",
}
OPTION_LISTS: Mapping[str, str] = {
    "context-path": "context_paths",
    "global-context-path": "global_context_paths",
    "skill-path": "skills_paths",
    "disable-skill": "disabled_skills",
}
UI_OPTIONS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "compact": ("tui.compact_mode", _flag_value),
    "diff": ("tui.diff_mode", str),
    "transparent": ("tui.transparent", _flag_value),
    "scrollbar": ("tui.scrollbar", str),
    "completions-max-depth": ("tui.completions.max_depth", _whole),
    "completions-max-items": ("tui.completions.max_items", _whole),
}


def trees_of(calls: Sequence[Call]) -> tuple[list[Tree], list[Problem]]:
    """What the calls configure, and which of them do not fit."""
    reading = _Reading()
    problems: list[Problem] = []
    for call in calls:
        try:
            reading.take(call.words)
        except _Mistake as mistake:
            words = " ".join(call.words[:2])
            problems.append(Problem(call.file, call.line, 1, str(mistake), words))
    return [tree for tree in reading.trees if tree], problems


@dataclass(slots=True)
class _Reading:
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
                raise _Mistake("is not a builtin of crushrc")

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
        """From this file and from the files below it."""
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
                raise _Mistake("--command is missing")
            _entries(self.tree, "hooks", event).append(entry)
            return
        if set(entry) - {"name"}:
            raise _Mistake("only --name selects a hook to remove")
        # Only this file's: a guard that another file has put up stays.
        for tree in self.trees:
            hooks = (tree.get("hooks") or {}).get(event)
            if hooks is not None:
                hooks[:] = [
                    each for each in hooks if "name" in entry and each.get("name") != entry["name"]
                ]

    def _permissions(self, words: list[str]) -> None:
        verb, tools = _argument(words, 0, "allow or deny"), words[1:]
        if verb not in {"allow", "deny"}:
            raise _Mistake(f"{verb!r} is not allow or deny")
        if not tools:
            raise _Mistake("names no tool")
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
                raise _Mistake(f"{words[1]!r} is not an option that holds a list")
            for tree in self.trees:
                (tree.get("options") or {}).pop(key, None)
            self.trees.append({"options": {key: None}})
            self.trees.append({})
        elif name in OPTION_FLAGS:
            key, is_same = OPTION_FLAGS[name]
            value = _flag_value(words[1]) if len(words) > 1 else True
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
            raise _Mistake(f"{name!r} is not an option{_meant(name, known)}")

    def _ui(self, words: list[str]) -> None:
        name = _argument(words, 0, "an option of the interface")
        if name not in UI_OPTIONS:
            raise _Mistake(f"{name!r} is not an option of the interface{_meant(name, UI_OPTIONS)}")
        key, read = UI_OPTIONS[name]
        _no_more(words[2:])
        _put(self.tree.setdefault("options", {}), key, read(_argument(words, 1, "a value")))


def _verb(words: Sequence[str]) -> str:
    word = _argument(words, 0, "add or remove")
    if word in {"remove", "rm"}:
        return "remove"
    if word != "add":
        raise _Mistake(f"{word!r} is not add or remove")
    return word


def _argument(words: Sequence[str], index: int, what: str) -> str:
    if len(words) <= index or not words[index] or words[index].startswith("--"):
        raise _Mistake(f"needs {what}")
    return words[index]


def _no_more(words: Sequence[str]) -> None:
    if words:
        raise _Mistake(f"{words[0]!r} is one word too many")


def _model_name(text: str) -> tuple[str, str]:
    provider, _, model_id = text.partition("/")
    if not provider or not model_id:
        raise _Mistake(f"{text!r} is not PROVIDER/ID")
    return provider, model_id


def _set_flags(entry: Tree, words: list[str], flags: FlagTable) -> None:
    """Each into the entry; a flag that repeats adds to what this call has said."""
    fresh: set[str] = set()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, has_value, value = word.partition("=")
        flag = flags.get(name)
        if flag is None:
            raise _Mistake(f"{name!r} is not known{_meant(name, flags)}")
        if has_value:
            rest.insert(0, value)
        if flag.is_switch and not has_value and (not rest or rest[0].lower() not in _TRUE | _FALSE):
            _put(entry, flag.key, True)
            continue
        if len(rest) < flag.words:
            raise _Mistake(f"{name} needs {'a value' if flag.words == 1 else 'a name and a value'}")
        taken = [rest.pop(0) for _ in range(flag.words)]
        _add(entry, flag, taken, is_first=flag.key not in fresh)
        fresh.add(flag.key)


def _add(entry: Tree, flag: Flag, words: Sequence[str], *, is_first: bool) -> None:
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
