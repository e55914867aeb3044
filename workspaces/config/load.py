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
    Fingerprint,
    config_home,
    find_candidates,
    fingerprint,
    home,
    stored_for_workspace,
)
from workspaces.config.hooks import pre_tool_hooks
from workspaces.config.language_servers import language_servers
from workspaces.config.mcp_servers import mcp_servers
from workspaces.config.merge import merge
from workspaces.config.options import complete_options
from workspaces.config.parse import Parsed, Tree, parse_file
from workspaces.config.problem import Problem, problem_with_file, problem_with_key
from workspaces.config.public import Places, public_config
from workspaces.config.schema import check
from workspaces.config.settings import Attribution, Settings
from workspaces.config.skill_folders import skill_folders

PROBLEMS_LIMIT = 100

__all__ = ["LoadedConfig", "fingerprint", "load_config"]


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    settings: Settings
    public: dict[str, Any]  # what every client may see; not to be changed
    problems: tuple[Problem, ...]
    files: tuple[str, ...]  # every file that could take part: give them to ``fingerprint``
    mark: Fingerprint  # what ``fingerprint(files)`` was when they were read
    data_dir: str  # absolute; what is stored for the workspace lies there


@dataclass(frozen=True, slots=True)
class _Files:
    trees: list[Tree]  # lowest precedence first
    files: tuple[str, ...]
    mark: Fingerprint
    data_directory: str
    problems: list[Problem]


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
    read = _read_all(path, data_dir=data_dir, server=server)
    places = Places(path, read.data_directory, home(server).rstrip("/"), config_home(server))
    tree = _merged(read.trees)
    options = complete_options(
        tree.get("options") or {},
        home=places.home,
        config_home=places.config_home,
        data_directory=read.data_directory,
    )
    lookup = variables(env, server)
    chosen = choose(
        tree,
        order=_provider_order(read.trees),
        discovery=Discovery(lookup, asks_ollama(env, server)),
    )
    found: list[Problem] = []
    settings = replace(
        _settings(tree, options, chosen),
        mcp=mcp_servers(tree, lookup=lookup, problems=found),
        lsp=language_servers(tree, lookup=lookup, problems=found),
        pre_tool_hooks=pre_tool_hooks(tree, problems=found),
        skills_paths=skill_folders(path, options["skills_paths"], server_env=server),
    )
    problems = (*read.problems, *chosen.problems, *found)[:PROBLEMS_LIMIT]
    public = public_config(tree, chosen=chosen, options=options, places=places)
    if problems:
        # Clients ignore keys that they do not know; whoever looks is told where to mend.
        public["problems"] = [str(problem) for problem in problems]
    return LoadedConfig(
        settings=settings,
        public=public,
        problems=problems,
        files=read.files,
        mark=read.mark,
        data_dir=read.data_directory,
    )


def merged_tree(path: str, *, data_dir: str, server_env: Mapping[str, str] | None = None) -> Tree:
    """What the files say together, as it is written: it may hold keys."""
    server = os.environ if server_env is None else server_env
    return _merged(_read_all(path, data_dir=data_dir, server=server).trees)


def _read_all(path: str, *, data_dir: str, server: Mapping[str, str]) -> _Files:
    candidates = find_candidates(path, server_env=server)
    problems: list[Problem] = []
    # Marked before they are read: what changes meanwhile is then seen as changed.
    mark = fingerprint(candidates.files)
    trees = _read(candidates, path, problems)
    directory = _data_directory(path, data_dir, trees, home(server))
    stored = stored_for_workspace(directory)
    files = candidates.files
    if stored not in files:
        files = (*files, stored)
        mark += fingerprint((stored,))
        trees += _read(Candidates((stored,), frozenset(), frozenset()), path, problems)
    return _Files(trees, files, mark, directory, problems)


def _data_directory(path: str, given: str, trees: list[Tree], at_home: str) -> str:
    """Absolute: clients write their logs there."""
    named = given or (_merged(trees).get("options") or {}).get("data_directory") or ".crush"
    if named == "~" or named.startswith("~/"):
        named = at_home + named[1:]
    return os.path.normpath(os.path.join(path, named))  # noqa: PTH118


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
        is_users = file in candidates.users
        trees.append(_own_paths(tree) if is_users else _kept_inside(tree, file, problems))
    return trees


def _own_paths(tree: Tree) -> Tree:
    """The user's context paths outside of any workspace are read for every workspace."""
    paths = (tree.get("options") or {}).get("context_paths") or []
    outside = [path for path in paths if path.startswith(("/", "~/"))]
    if not outside:
        return tree
    inside = [path for path in paths if path not in outside]
    moved = {"context_paths": inside, "global_context_paths": outside}
    return merge(
        tree | {"options": tree["options"] | {"context_paths": inside}}, {"options": moved}
    )


def _kept_inside(tree: Tree, file: str, problems: list[Problem]) -> Tree:
    """A project must not have files of its user read to a model."""
    if not (tree.get("options") or {}).get("global_context_paths"):
        return tree
    key = "options.global_context_paths"
    problems.append(problem_with_key(key, "is only used from your own configuration", file=file))
    return merge(tree, {"options": {"global_context_paths": None}})


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
        global_context_paths=tuple(options["global_context_paths"]),
        initialize_as=options["initialize_as"],
        auto_lsp=options.get("auto_lsp") is not False,
        attribution=Attribution(
            trailer_style=options["attribution"]["trailer_style"],
            generated_with=options["attribution"]["generated_with"],
        ),
        disabled_skills=frozenset(options.get("disabled_skills") or ()),
        web_allowed_hosts=tuple(
            host.strip().lower()
            for host in ((tree.get("tools") or {}).get("web") or {}).get("allowed_private_hosts")
            or ()
            if host.strip()
        ),
    )
