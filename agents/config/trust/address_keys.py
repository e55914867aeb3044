"""Keeps keys away from addresses and programs that a folder chose. Pure.

A trusted folder may name an address or a program, but then the keys for it must come from the
folder too. The user's own keys only go to addresses and programs that the user chose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.config.parse import Tree
from agents.config.problem import Problem, warning_with_key
from agents.config.trust.sources import ConfigSource


@dataclass(frozen=True, slots=True)
class _Section:
    """A section in which each entry may be the folder's choice."""

    credentials: tuple[str, ...]
    choosing: tuple[str, ...]  # the file that sets one of these last has chosen where the keys go
    otherwise: str = ""  # the same, where no file sets any of those
    what: str = "address"
    kind: str = "entry"
    own: str = "name it"


_SECTIONS: Mapping[str, _Section] = {
    "providers": _Section(
        ("api_key", "oauth", "extra_headers", "extra_body"),
        ("base_url",),
        "type",
        kind="provider",
        own="set base_url",
    ),
    "mcp": _Section(
        ("headers", "env", "oauth_client_id", "oauth_client_secret"),
        ("command", "args", "url"),
        what="program or address",
    ),
    "lsp": _Section(("env",), ("command", "args"), what="program"),
    "fleet": _Section(("token",), ("endpoint",)),
}


@dataclass(frozen=True, slots=True)
class Separated:
    trees: list[Tree]  # lowest precedence first
    folder_providers: frozenset[str]  # whose address is the folder's choice
    problems: list[Problem]


def separate_keys(sources: Sequence[ConfigSource]) -> Separated:
    chosen = {name: _chosen_by_folder(sources, name) for name in _SECTIONS}
    problems: list[Problem] = []
    trees: list[Tree] = []
    for source in sources:
        tree = source.tree
        for name in _SECTIONS:
            if not source.is_folders and chosen[name]:
                tree = _without(tree, name, chosen[name], source.file, problems)
        trees.append(tree)
    return Separated(trees, chosen["providers"], problems)


def _chosen_by_folder(sources: Sequence[ConfigSource], name: str) -> frozenset[str]:
    """Returns the entries whose address or program was last chosen by a file of the folder."""
    section = _SECTIONS[name]
    deciding, otherwise = set(section.choosing), {section.otherwise} - {""}
    settings: dict[str, dict[str, bool]] = {}
    for source in sources:
        for entry_name, entry in (source.tree.get(name) or {}).items():
            for key in (deciding | otherwise) & set(entry or ()):
                settings.setdefault(entry_name, {})[key] = source.is_folders
    return frozenset(
        entry_name
        for entry_name, by_key in settings.items()
        if any(by_key[key] for key in (deciding & set(by_key) or otherwise & set(by_key)))
    )


def _without(
    tree: Tree, name: str, chosen: frozenset[str], file: str, problems: list[Problem]
) -> Tree:
    entries = tree.get(name) or {}
    section = _SECTIONS[name]
    kept: Tree = {}
    for entry_name, entry in entries.items():
        kept[entry_name] = entry
        if not entry or entry_name not in chosen:
            continue
        lost = sorted(set(section.credentials) & set(entry))
        kept[entry_name] = {key: value for key, value in entry.items() if key not in lost}
        message = (
            f"what other files configure is not sent to the {section.what} that this folder"
            f" chose; give the folder's {section.kind} a key of its own, such as $NAME, or"
            f" {section.own} in your own configuration"
        )
        problems += [
            warning_with_key(f"{name}.{entry_name}.{key}", message, file=file) for key in lost
        ]
    return tree | {name: kept} if entries else tree
