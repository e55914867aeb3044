"""Loads a workspace's configuration: files in, values out.

Blocking, so it is called in a thread. The contents of files, folders and variables
never raise: ``problems`` lists the errors, and the rest is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agents.config.crushrc.programs import LastTrees, program_environment, runner
from agents.config.expand import Lookup, variables
from agents.config.find import Fingerprint, config_home, fingerprint, home
from agents.config.parse import ParsedFile, Tree
from agents.config.problem import Problem
from agents.config.providers.built_in import is_installed
from agents.config.providers.choice import ChosenModels, choose
from agents.config.providers.discovery import Discovery, prefers_local, uses_ollama
from agents.config.public import Places, public_config
from agents.config.read_files import ReadFiles, merge_all, read_files
from agents.config.sections.hooks import pre_tool_hooks
from agents.config.sections.options import complete_options, skill_folders
from agents.config.sections.roles import fleet_roles
from agents.config.sections.servers import language_servers, mcp_servers
from agents.config.settings import Attribution, Settings
from agents.config.trust.address_keys import Separated, separate_keys
from agents.config.trust.decision import FolderTrust, TrustAnswers, TrustMode, TrustState
from agents.config.trust.folder_programs import folder_programs, words_of_programs
from agents.config.trust.powers import Powers, powers_of
from agents.config.trust.project_code import project_code_powers
from agents.config.trust.sources import ConfigSource
from agents.states import CutRule

PROBLEMS_LIMIT = 100

__all__ = ["LoadedConfig", "fingerprint", "load_config"]


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    settings: Settings
    public: dict[str, Any]  # what every client may see; not to be changed
    problems: tuple[Problem, ...]
    files: tuple[str, ...]  # every file that could take part: give them to ``fingerprint``
    mark: Fingerprint  # what ``fingerprint(files)`` was when they were read
    path: str
    data_dir: str  # absolute; contains the workspace's stored file
    # The last valid content of each file, for use while the file is broken.
    sound: Mapping[str, ParsedFile] = field(repr=False)
    # What each crushrc that was run configured.
    ran: LastTrees = field(repr=False)
    trust: FolderTrust = field(default_factory=FolderTrust)


def load_config(
    path: str,
    *,
    data_dir: str = "",
    env: Mapping[str, str],
    server_env: Mapping[str, str] | None = None,
    last_sound: Mapping[str, ParsedFile] | None = None,
    last_trees: LastTrees | None = None,
    answers: TrustAnswers | None = None,
    stored_digest: str = "",
) -> LoadedConfig:
    """``path`` is the workspace's resolved folder, ``env`` what its client gave.

    Without ``data_dir`` the files decide, else it is ``<path>/.crush``. A broken file counts
    as in ``last_sound``, which is the ``sound`` of earlier loads. Without ``answers`` the
    folder is not trusted.
    """
    server = os.environ if server_env is None else server_env
    read = read_files(
        path,
        data_dir=data_dir,
        server=server,
        last_sound=last_sound or {},
        run=runner(program_environment(env, server)),
        last_trees=last_trees or {},
        stored_digest=stored_digest,
    )
    places = Places(path, read.data_directory, home(server).rstrip("/"), config_home(server))
    trusts = answers or TrustAnswers()
    allowed = _allowed_files(read, trusts, path=path, search_path=(env or server).get("PATH", ""))
    trust = allowed.trust
    tree = merge_all(allowed.separated.trees)
    options = _options(tree, places)
    lookup = variables(env, server)
    discovery = Discovery(lookup, uses_ollama(env, server), is_installed(), prefers_local(server))
    chosen = _chosen_models(tree, read, allowed, discovery)
    found: list[Problem] = []
    is_trusted = trust.state is TrustState.TRUSTED
    settings = replace(
        _settings(tree, options, chosen, lookup=lookup, problems=found),
        runs_project_code=trusts.mode is TrustMode.ALL or is_trusted,
        trusted_digest=trust.powers.digest if is_trusted else "",
        skills_paths=skill_folders(path, options["skills_paths"], server_env=server),
    )
    problems = (
        *trust.problems(),
        *read.problems,
        *allowed.separated.problems,
        *chosen.problems,
        *found,
        *read.warnings,
    )[:PROBLEMS_LIMIT]
    public = public_config(tree, chosen=chosen, options=options, places=places)
    if problems:
        # Clients ignore unknown keys; a person who looks sees what to correct.
        public["problems"] = [str(problem) for problem in problems]
    return LoadedConfig(
        settings=settings,
        public=public,
        problems=problems,
        files=(*read.files, *allowed.programs),
        mark=(*read.mark, *fingerprint(allowed.programs)),
        path=path,
        data_dir=read.data_directory,
        sound=read.sound,
        ran=read.programs.ran,
        trust=trust,
    )


@dataclass(frozen=True, slots=True)
class _AllowedFiles:
    """The content of the files that the folder's trust allows."""

    trust: FolderTrust
    separated: Separated
    programs: Iterable[str]  # files of the folder that its configuration starts


def _allowed_files(
    read: ReadFiles, trusts: TrustAnswers, *, path: str, search_path: str
) -> _AllowedFiles:
    powers = powers_of(read.sources, path=path)
    if trusts.mode is not TrustMode.ALL and _starts_known(read.sources):
        powers += project_code_powers(path, search_path=search_path)
    programs = folder_programs(words_of_programs(powers), path)
    found = Powers.of(powers, programs.digests, is_complete=programs.is_complete)
    trust = FolderTrust(trusts.state_of(found), found)
    sources = read.programs.run_folders(read.sources, lets_act=trust.lets_act)
    separated = separate_keys(trust.trees(sources, path=path))
    return _AllowedFiles(trust, separated, programs.digests)


def _options(tree: Tree, places: Places) -> Tree:
    return complete_options(
        tree.get("options") or {},
        home=places.home,
        config_home=places.config_home,
        data_directory=places.data_directory,
    )


def _chosen_models(
    tree: Tree, read: ReadFiles, allowed: _AllowedFiles, discovery: Discovery
) -> ChosenModels:
    return choose(
        tree,
        order=_provider_order(allowed.separated.trees),
        discovery=discovery,
        folder_providers=allowed.separated.folder_providers,
        left_out=allowed.trust.left_out("providers"),
        broken=[*read.unknown, *_model_misfits(read.problems)],
    )


def _model_misfits(problems: Iterable[Problem]) -> list[Problem]:
    """The problems for which the choice of a model was dropped."""
    keys = {"models", "models.large", "models.large.model", "models.large.provider"}
    return [problem for problem in problems if problem.key in keys]


def _starts_known(sources: Iterable[ConfigSource]) -> bool:
    """Whether the merged files let installed language servers start automatically."""
    options = merge_all(source.tree for source in sources).get("options") or {}
    return options.get("auto_lsp") is not False


def _provider_order(trees: list[Tree]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for tree in reversed(trees):
        names.update(dict.fromkeys(tree.get("providers") or {}))
    return tuple(names)


def _cut_rules(tree: Tree) -> dict[str, CutRule]:
    rules = (tree.get("permissions") or {}).get("cut_calls") or {}
    return {tool: CutRule(rule) for tool, rule in rules.items() if rule is not None}


def _settings(
    tree: Tree, options: Tree, chosen: ChosenModels, *, lookup: Lookup, problems: list[Problem]
) -> Settings:
    return Settings(
        mcp=mcp_servers(tree, lookup=lookup, problems=problems),
        lsp=language_servers(tree, lookup=lookup, problems=problems),
        fleet=fleet_roles(tree, lookup=lookup, problems=problems),
        pre_tool_hooks=pre_tool_hooks(tree, problems=problems),
        providers={name: resolved.settings for name, resolved in chosen.providers.items()},
        large=chosen.large,
        small=chosen.small,
        allowed_tools=frozenset((tree.get("permissions") or {}).get("allowed_tools") or ()),
        cut_rules=_cut_rules(tree),
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
        agent_role=str(((tree.get("tools") or {}).get("agent") or {}).get("role") or ""),
        disabled_skills=frozenset(options.get("disabled_skills") or ()),
        web_allowed_hosts=tuple(
            host.strip().lower()
            for host in ((tree.get("tools") or {}).get("web") or {}).get("allowed_private_hosts")
            or ()
            if host.strip()
        ),
    )
