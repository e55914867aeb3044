"""Finds what a folder's own configuration could do beyond describing the folder. Pure.

A power starts a program, sends data to an address, allows a tool or a host, or removes a
restriction of the user. ``without_powers`` removes from a tree exactly what ``powers_of``
lists, because both use the same walk. Unclassified keys are removed too, so that a new key
does not become a security hole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath
from typing import Any

from agents.config.expand import variables_in
from agents.config.mask import (
    masked,
    masked_address,
    masked_command,
    masked_within,
    masked_words,
    texts_in,
    without_secrets,
)
from agents.config.parse import Tree
from agents.config.trust.sources import ConfigSource, is_outside
from agents.config.trust.words import only_names_options, words_of


class Effect(StrEnum):
    STARTS = "starts"
    SENDS = "sends"
    ALLOWS = "allows"


@dataclass(frozen=True, slots=True)
class Power:
    effect: Effect
    file: str
    key: str  # dotted
    shown: str  # what it does, without secrets
    value: Any = field(repr=False)  # as written: part of the digest, never shown
    words: tuple[str, ...] = field(default=(), repr=False)  # of the command that it starts
    text: str = field(default="", repr=False)  # of the program that it runs, without secrets

    @property
    def line(self) -> str:
        """One line, without characters that a terminal would interpret or hide."""
        return printable(f"{self.key}: {self.shown}")


@dataclass(frozen=True, slots=True)
class Powers:
    """All powers of a folder, and the digest with which an answer is stored."""

    items: tuple[Power, ...] = ()
    programs: Mapping[str, str] = field(default_factory=dict)  # files of the folder by digest
    digest: str = ""
    is_complete: bool = True  # whether ``programs`` are all that the powers name

    @classmethod
    def of(
        cls, items: Sequence[Power], programs: Mapping[str, str], *, is_complete: bool = True
    ) -> Powers:
        if not items:
            return cls()
        parts = [[item.effect, item.file, item.key, item.value] for item in items]
        text = json.dumps([parts, dict(programs)], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        return cls(tuple(items), programs, digest, is_complete)

    @property
    def is_showable(self) -> bool:
        return (
            self.is_complete
            and sum(len(item.line) + len(item.text) for item in self.items) <= SHOWN_LIMIT
        )

    def lines(self, effect: Effect) -> list[str]:
        return [item.line for item in self.items if item.effect is effect]

    def variables(self) -> list[str]:
        names: dict[str, None] = {}
        for item in self.items:
            for text in texts_in(item.value):
                names.update(dict.fromkeys(variables_in(text)))
        return [f"${name}" for name in names]


def powers_of(sources: Iterable[ConfigSource], *, path: str) -> list[Power]:
    """Returns the powers of these sources. ``path`` is the workspace's folder."""
    return [power for source in sources for power in _powers(source, path)]


def _powers(source: ConfigSource, path: str) -> list[Power]:
    if not source.is_folders or source.is_let_in:
        return []
    if source.program:
        lines = source.text.splitlines()
        size = "1 line" if len(lines) == 1 else f"{len(lines)} lines"
        shown = f"runs this program of {size}, which may configure anything"
        text = "\n".join(printable(masked_command(line)) for line in lines)
        name = PurePath(source.file).name
        words = words_of("\n".join(line for line in lines if not only_names_options(line)))
        return [Power(Effect.STARTS, source.file, name, shown, source.program, tuple(words), text)]
    return _Walk(source.file, path).split(source.tree)[1]


def without_powers(source: ConfigSource, *, path: str) -> Tree:
    return _Walk(source.file, path).split(source.tree)[0]


def printable(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in line
    )


# The keys of these sections that need no answer. Every other key is a power.
HARMLESS_PROVIDER_KEYS = frozenset(
    {"id", "name", "models", "system_prompt_prefix", "flat_rate", "discover_models"}
)
HARMLESS_MCP_KEYS = frozenset({"timeout"})
HARMLESS_LSP_KEYS = frozenset({"filetypes", "root_markers", "timeout"})
HARMLESS_SECTIONS = frozenset({"$schema", "models", "recent_models"})


SHOWN_LIMIT = 64 << 10  # characters of a trust request: a longer one cannot be reviewed


@dataclass(slots=True)
class _Walk:
    file: str
    path: str
    found: list[Power] = field(default_factory=list)

    def split(self, tree: Tree) -> tuple[Tree, list[Power]]:
        kept: Tree = {}
        for name, value in tree.items():
            if name in HARMLESS_SECTIONS:
                kept[name] = value
            elif (walk := _SECTIONS.get(name)) is not None:
                left = walk(self, value)
                if left is not _NOTHING:
                    kept[name] = left
        return kept, self.found

    def add(
        self, effect: Effect, key: str, shown: str, value: Any, words: Sequence[str] = ()
    ) -> None:
        self.found.append(Power(effect, self.file, key, shown, value, tuple(words)))

    # -- sections: each returns what may stay

    def providers(self, value: Any) -> Any:
        if value is None:
            self.add(Effect.SENDS, "providers", "removes your own providers", None)
            return _NOTHING
        return {
            name: left
            for name, entry in value.items()
            if (left := self._provider(f"providers.{name}", entry)) is not _NOTHING
        }

    def _provider(self, key: str, entry: Any) -> Any:
        if entry is None:
            self.add(Effect.SENDS, key, "removes your own provider", None)
            return _NOTHING
        if entry.get("disable") is True:
            return {"disable": True}
        kept = {name: entry[name] for name in entry if name in HARMLESS_PROVIDER_KEYS}
        guarded = {name: entry[name] for name in _PROVIDER_POWERS if name in entry}
        if not guarded:
            return kept
        self.add(Effect.SENDS, key, _shown_provider(guarded), guarded)
        # Its models belong to its own address and are useless without it.
        return _NOTHING if _ADDRESS_KEYS & set(guarded) else kept

    def mcp(self, value: Any) -> Any:
        return self._servers("mcp", value, HARMLESS_MCP_KEYS)

    def lsp(self, value: Any) -> Any:
        return self._servers("lsp", value, HARMLESS_LSP_KEYS)

    def _servers(self, section: str, value: Any, harmless: frozenset[str]) -> Any:
        if value is None:
            return None  # this only removes servers
        kept: Tree = {}
        for name, entry in value.items():
            if entry is None:
                kept[name] = None
                continue
            tuning = {key: entry[key] for key in entry if key in harmless}
            rest = {key: entry[key] for key in entry if key not in harmless}
            if section == "mcp" and set(rest) <= {"disabled_tools"}:
                if rest:
                    # This list replaces the user's own.
                    hidden = ", ".join(entry["disabled_tools"] or ()) or "none"
                    shown = f"offers all tools of this server but {hidden}"
                    self.add(Effect.ALLOWS, f"mcp.{name}.disabled_tools", shown, rest)
                kept[name] = tuning
            elif rest == {"disabled": True}:
                kept[name] = entry
            else:
                # An ``lsp`` entry without a command starts the known server of its name.
                self._server(f"{section}.{name}", name, entry)
        return kept

    def _server(self, key: str, name: str, entry: Mapping[str, Any]) -> None:
        off = " (disabled)" if entry.get("disabled") else ""
        words = [str(entry.get("command") or ""), *(entry.get("args") or ())]
        if entry.get("url"):
            shown = masked_address(str(entry["url"]))
            headers = ", ".join(entry.get("headers") or ())
            with_headers = f" with the headers {headers}" if headers else ""
            self.add(Effect.SENDS, key, f"{shown}{with_headers}{off}", entry)
        if entry.get("command") or not entry.get("url"):
            command = " ".join(masked_words(words)) if entry.get("command") else name
            names = ", ".join(entry.get("env") or ())
            with_env = f" with the variables {names}" if names else ""
            options = {
                name: without_secrets(entry[name])
                for name in ("init_options", "options")
                if entry.get(name)
            }
            with_options = f" with {json.dumps(options)}" if options else ""
            words += [
                *(f"{name}={value}" for name, value in (entry.get("env") or {}).items()),
                *(
                    text
                    for name in ("init_options", "options")
                    for text in texts_in(entry.get(name))
                ),
            ]
            shown = f"{command}{with_env}{with_options}{off}"
            self.add(Effect.STARTS, key, shown, entry, words)

    def hooks(self, value: Any) -> Any:
        for event, entries in (value or {}).items():
            for index, entry in enumerate(entries or ()):
                command = str((entry or {}).get("command") or "")
                matcher = str((entry or {}).get("matcher") or "")
                before = f"before {matcher}" if matcher.strip("* ") else "before every tool"
                shown = f"{masked_command(command)} ({before})"
                self.add(Effect.STARTS, f"hooks.{event}[{index}]", shown, entry, words_of(command))
        return _NOTHING

    def permissions(self, value: Any) -> Any:
        # ``null`` removes the user's own list, which only leads to more permission requests.
        if value is None:
            return {"allowed_tools": None}
        if "cut_calls" in value:
            rules = value["cut_calls"] or {}
            named = ", ".join(f"{name}: {rule}" for name, rule in rules.items())
            shown = named or "removes your own rules"
            self.add(Effect.ALLOWS, "permissions.cut_calls", shown, value["cut_calls"])
        if tools := value.get("allowed_tools"):
            self.add(Effect.ALLOWS, "permissions.allowed_tools", ", ".join(tools), tools)
        removes = "allowed_tools" in value and value["allowed_tools"] is None
        return {"allowed_tools": None} if removes else _NOTHING

    def tools(self, value: Any) -> Any:
        value = value or {}
        hosts = (value.get("web") or {}).get("allowed_private_hosts")
        if hosts:
            key = "tools.web.allowed_private_hosts"
            self.add(Effect.ALLOWS, key, ", ".join(hosts), hosts)
        if value.get("agent"):
            role = masked_within(str((value["agent"] or {}).get("role") or ""))
            self.add(Effect.SENDS, "tools.agent", f"agents have the role {role}", value["agent"])
        return {"ls": value["ls"]} if "ls" in value else _NOTHING

    def fleet(self, value: Any) -> Any:
        for name, entry in (value or {}).items():
            if not entry:
                continue
            key, endpoint = f"fleet.{name}", str(entry.get("endpoint") or "")
            if endpoint:
                self.add(Effect.SENDS, key, masked_address(endpoint), entry)
            else:
                self.add(Effect.STARTS, key, f"sub-agents of the role {name}", entry)
        return _NOTHING

    def options(self, value: Any) -> Any:
        if value is None:
            self.add(Effect.ALLOWS, "options", "removes your own options", None)
            return _NOTHING
        kept = dict(value)
        if kept.get("auto_lsp", False) is not False:
            kept.pop("auto_lsp")
            self.add(Effect.STARTS, "options.auto_lsp", "installed language servers", True)
        if kept.get("disabled_tools", ()) is None:
            kept.pop("disabled_tools")
            shown = "offers the tools again that your own configuration hides"
            self.add(Effect.ALLOWS, "options.disabled_tools", shown, None)
        paths = kept.get("skills_paths") or []
        outside = [named for named in paths if is_outside(named, self.path)]
        if outside:
            kept["skills_paths"] = [named for named in paths if named not in outside]
            shown = f"reads {', '.join(outside)} without asking"
            self.add(Effect.ALLOWS, "options.skills_paths", shown, outside)
        return kept


class _Nothing:
    """The type of the value that marks a section as removed completely."""


_NOTHING = _Nothing()
_SECTIONS: Mapping[str, Callable[[_Walk, Any], Any]] = {
    "providers": _Walk.providers,
    "mcp": _Walk.mcp,
    "lsp": _Walk.lsp,
    "hooks": _Walk.hooks,
    "permissions": _Walk.permissions,
    "tools": _Walk.tools,
    "fleet": _Walk.fleet,
    "options": _Walk.options,
}
_ADDRESS_KEYS = frozenset({"base_url", "type"})
_PROVIDER_POWERS = (
    *("base_url", "type", "api_key", "oauth", "extra_headers", "extra_body"),
    *("provider_options", "disable"),
)


def _shown_provider(guarded: Mapping[str, Any]) -> str:
    parts: list[str] = []
    if guarded.get("base_url"):
        parts.append(f"prompts go to {masked_address(str(guarded['base_url']))}")
    elif "base_url" in guarded or "type" in guarded:
        parts.append(f"prompts go to the service of type {guarded.get('type') or 'unset'}")
    if guarded.get("api_key"):
        parts.append(f"with the key {masked(str(guarded['api_key']))}")
    if guarded.get("oauth"):
        parts.append("with a token of its own")
    if guarded.get("extra_headers"):
        parts.append(f"with the headers {', '.join(guarded['extra_headers'])}")
    if guarded.get("extra_body"):
        parts.append(f"with the fields {', '.join(guarded['extra_body'])}")
    others = [name for name in guarded if name not in _NAMED]
    parts += [f"sets {name}" for name in others]
    return ", ".join(parts) or f"sets {', '.join(guarded)}"


_NAMED = frozenset({"base_url", "type", "api_key", "oauth", "extra_headers", "extra_body"})
