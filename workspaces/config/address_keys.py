"""Keeps keys away from addresses that a folder chose. Pure.

A folder may name an address, once it is trusted; what is sent there with a prompt has to
come from the folder too. Its user's own keys stay with the addresses that the user chose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workspaces.config.folder_powers import Source
from workspaces.config.parse import Tree
from workspaces.config.problem import Problem, warning_with_key

_CREDENTIALS = ("api_key", "oauth", "extra_headers", "extra_body")
_MESSAGE = (
    "what is configured elsewhere is not sent to the address that this folder chose; give the"
    " folder's provider a key of its own, such as $NAME, or set base_url in your own configuration"
)


@dataclass(frozen=True, slots=True)
class Separated:
    trees: list[Tree]  # lowest precedence first
    folder_providers: frozenset[str]  # whose address is the folder's choice
    problems: list[Problem]


def keep_keys_apart(sources: Sequence[Source]) -> Separated:
    chosen = frozenset(_providers_of_folder(sources))
    problems: list[Problem] = []
    trees = [
        source.tree if source.is_folders else _without(source.tree, chosen) for source in sources
    ]
    for source, tree in zip(sources, trees, strict=True):
        before, after = source.tree.get("providers") or {}, tree.get("providers") or {}
        for name in sorted(chosen):
            lost = [key for key in before.get(name) or {} if key not in (after.get(name) or {})]
            problems += [
                warning_with_key(f"providers.{name}.{key}", _MESSAGE, file=source.file)
                for key in lost
            ]
    return Separated(trees, chosen, problems)


def _providers_of_folder(sources: Sequence[Source]) -> list[str]:
    """Whose ``base_url``, or else ``type``, was said last by a file of the folder."""
    is_folders: dict[tuple[str, str], bool] = {}
    for source in sources:
        for name, entry in (source.tree.get("providers") or {}).items():
            for key in ("base_url", "type"):
                if entry and key in entry:
                    is_folders[name, key] = source.is_folders
    names = dict.fromkeys(name for name, _ in is_folders)
    return [
        name
        for name in names
        if is_folders.get((name, "base_url"), is_folders.get((name, "type"), False))
    ]


def _without(tree: Tree, names: frozenset[str]) -> Tree:
    providers = tree.get("providers") or {}
    if not names & set(providers):
        return tree
    kept = {
        name: {key: value for key, value in entry.items() if key not in _CREDENTIALS}
        if entry and name in names
        else entry
        for name, entry in providers.items()
    }
    return tree | {"providers": kept}
