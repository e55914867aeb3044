"""Loads a workspace's configuration: files in, values out.

Blocking, so it is called in a thread. Never raises for what files, folders or
variables hold: whatever is wrong is told in ``problems``, and the rest is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workspaces.config.choose import Chosen, choose
from workspaces.config.defaults import Discovery, asks_ollama
from workspaces.config.environment import variables
from workspaces.config.find import (
    Candidates,
    config_home,
    find_candidates,
    fingerprint,
    home,
    stored_for_workspace,
)
from workspaces.config.merge import merge
from workspaces.config.options import complete_options
from workspaces.config.parse import Parsed, Tree, parse_file
from workspaces.config.problem import Problem, problem_with_file
from workspaces.config.public import Places, public_config
from workspaces.config.schema import check
from workspaces.config.settings import Settings

PROBLEMS_LIMIT = 100

__all__ = ["LoadedConfig", "fingerprint", "load_config"]


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    settings: Settings
    public: dict[str, Any]  # what every client may see; not to be changed
    problems: tuple[Problem, ...]
    files: tuple[str, ...]  # every file that could take part: give them to ``fingerprint``
    data_dir: str = ""
    global_context_paths: tuple[str, ...] = ()


def load_config(
    path: str,
    *,
    data_dir: str = "",
    env: Mapping[str, str],
    server_env: Mapping[str, str] | None = None,
) -> LoadedConfig:
    """``path`` is the workspace's resolved folder, ``env`` what its client gave.

    Without ``data_dir`` it is what the files say, else ``<path>/.crush``.
    """
    server = os.environ if server_env is None else server_env
    places = Places(path, "", home(server).rstrip("/"), config_home(server))
    problems: list[Problem] = []
    candidates = find_candidates(path, server_env=server)
    trees = _read(candidates, path, problems)
    directory = _data_directory(data_dir, trees, places)
    stored = stored_for_workspace(directory)
    if stored not in candidates.files:
        trees += _read(Candidates((stored,), frozenset()), path, problems)
    tree = _merged(trees)
    places = replace(places, data_directory=directory)
    options = complete_options(
        tree.get("options") or {},
        home=places.home,
        config_home=places.config_home,
        data_directory=directory,
    )
    chosen = choose(
        tree,
        order=_provider_order(trees),
        discovery=Discovery(variables(env, server), asks_ollama(env, server)),
    )
    return LoadedConfig(
        settings=_settings(tree, options, chosen),
        public=public_config(tree, chosen=chosen, options=options, places=places),
        problems=(*problems, *chosen.problems)[:PROBLEMS_LIMIT],
        files=tuple(dict.fromkeys((*candidates.files, stored))),
        data_dir=directory,
        global_context_paths=tuple(options["global_context_paths"]),
    )


def _data_directory(given: str, trees: list[Tree], places: Places) -> str:
    """Absolute: clients write their logs there."""
    named = given or (_merged(trees).get("options") or {}).get("data_directory") or ".crush"
    if named == "~" or named.startswith("~/"):
        named = places.home + named[1:]
    return os.path.normpath(os.path.join(places.workspace, named))  # noqa: PTH118


def _read(candidates: Candidates, path: str, problems: list[Problem]) -> list[Tree]:
    """The trees of the files that exist, lowest precedence first."""
    trusted = {0, os.getuid(), _owner(path)}
    trees: list[Tree] = []
    for file in candidates.files:
        parsed = parse_file(file)
        if not parsed.present:
            continue
        problems += parsed.problems
        if file in candidates.project and not _is_trusted(parsed, trusted):
            # Above a workspace in a shared folder, anyone could leave one.
            problems.append(problem_with_file(file, "it belongs to another user and is not used"))
            continue
        tree, misfits = check(parsed.tree)
        problems += [Problem(file, 0, 0, misfit.message, misfit.key) for misfit in misfits]
        trees.append(tree)
    return trees


def _is_trusted(parsed: Parsed, trusted: set[int]) -> bool:
    return parsed.owner in trusted


def _owner(path: str) -> int:
    try:
        return Path(path).stat().st_uid
    except (OSError, ValueError):
        return 0


def _merged(trees: list[Tree]) -> Tree:
    merged: Tree = {}
    for tree in trees:
        merged = merge(merged, tree)
    return merged


def _provider_order(trees: list[Tree]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for tree in reversed(trees):
        names.update(dict.fromkeys(tree.get("providers") or {}))
    return tuple(names)


def _settings(tree: Tree, options: Tree, chosen: Chosen) -> Settings:
    return Settings(
        providers={name: resolved.settings for name, resolved in chosen.providers.items()},
        large=chosen.large,
        small=chosen.small,
        allowed_tools=frozenset((tree.get("permissions") or {}).get("allowed_tools") or ()),
        disabled_tools=frozenset(options.get("disabled_tools") or ()),
        context_paths=tuple(options["context_paths"]),
        auto_summarize=not options.get("disable_auto_summarize"),
    )
