"""Reads all files of a workspace's configuration into trees, lowest precedence first.

Decides whose files count, and what applies while a file is broken. The contents of folders
and files never raise. Merges the trees, and does not interpret them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from agents.config.crushrc.programs import LastTrees, Programs, Run, read_program, remembered
from agents.config.find import (
    Candidates,
    Fingerprint,
    find_candidates,
    fingerprint,
    home,
    is_shell_file,
    stored_for_workspace,
)
from agents.config.merge import merge
from agents.config.parse import ParsedFile, Tree, parse_file
from agents.config.problem import Problem, problem_with_file, warning_with_key
from agents.config.schema import CONFIG, check
from agents.config.trust.sources import ConfigSource, is_outside, is_within
from agents.config.validation import unknown_keys

_FOREIGN = "it belongs to another user and is not used"


@dataclass(frozen=True, slots=True)
class ReadFiles:
    sources: list[ConfigSource] = field(repr=False)  # lowest precedence first
    files: tuple[str, ...]
    mark: Fingerprint
    data_directory: str
    problems: list[Problem]
    warnings: list[Problem]
    # Errors that may hide the choice of a model.
    unknown: list[Problem]
    sound: dict[str, ParsedFile] = field(repr=False)
    programs: Programs = field(repr=False)  # the folder's programs have not run yet


def read_files(
    path: str,
    *,
    data_dir: str,
    server: Mapping[str, str],
    last_sound: Mapping[str, ParsedFile],
    run: Run,
    last_trees: LastTrees,
    stored_digest: str = "",
) -> ReadFiles:
    """``stored_digest`` is that of the workspace's stored choices as this server last wrote
    them. Another content, inside of the workspace, came with the folder."""
    candidates = find_candidates(path, server_env=server)
    problems: list[Problem] = []
    # Taken before the files are read, so that a change during the read is noticed.
    mark = fingerprint(candidates.files)
    programs = Programs(run, last_trees, problems)
    reading = _FileReading(path, last_sound, problems, programs, unknown=programs.unknown)
    sources = reading.sources(candidates)
    directory = _data_directory(path, data_dir, sources, home(server))
    stored = stored_for_workspace(directory)
    files = candidates.files
    if stored not in files:
        files = (*files, stored)
        mark += fingerprint((stored,))
        sources += reading.sources(
            Candidates((stored,), frozenset(), frozenset()), stored_digest=stored_digest
        )
    return ReadFiles(
        sources,
        files,
        mark,
        directory,
        problems,
        reading.warnings,
        reading.unknown,
        reading.sound,
        programs,
    )


def _data_directory(path: str, given: str, sources: list[ConfigSource], at_home: str) -> str:
    """Returns the absolute path of the data directory, where clients write their logs."""
    options = merge_all(source.tree for source in sources).get("options") or {}
    named = given or options.get("data_directory") or ".crush"
    if named == "~" or named.startswith("~/"):
        named = at_home + named[1:]
    return os.path.normpath(Path(path, named))


@dataclass(slots=True)
class _FileReading:
    """The files of one workspace while they are read."""

    path: str
    last_sound: Mapping[str, ParsedFile]
    problems: list[Problem]
    programs: Programs
    sound: dict[str, ParsedFile] = field(default_factory=dict)
    warnings: list[Problem] = field(default_factory=list)
    unknown: list[Problem] = field(default_factory=list)

    def sources(self, candidates: Candidates, *, stored_digest: str = "") -> list[ConfigSource]:
        """The files that exist, lowest precedence first."""
        own_ids = {0, os.getuid(), _owner(self.path)}
        sources: list[ConfigSource] = []
        for file in candidates.files:
            if is_shell_file(file):
                self._warn_of_both(file, sources)
                is_folders = file in candidates.project
                sources += self._program(file, own_ids=own_ids, is_folders=is_folders)
                continue
            parsed = self._parsed(file)
            if not parsed.present:
                continue
            if file in candidates.project and parsed.owner not in own_ids:
                # In a shared folder above the workspace, anyone could leave one.
                self.problems.append(Problem(file, 0, 0, _FOREIGN, is_warning=True))
                continue
            tree, misfits = check(parsed.tree)
            self.problems += [Problem(file, 0, 0, misfit.message, misfit.key) for misfit in misfits]
            self.warnings += [
                Problem(file, 0, 0, misfit.message, misfit.key, is_warning=True)
                for misfit in unknown_keys(parsed.tree, CONFIG)
            ]
            if file in candidates.users:
                sources.append(ConfigSource(file, _own_paths(tree), is_folders=False))
                continue
            tree = _kept_inside(tree, file, self.path, self.problems)
            is_folders = file in candidates.project or (
                is_within(file, self.path) and parsed.digest != stored_digest
            )
            sources.append(ConfigSource(file, tree, is_folders=is_folders))
        return sources

    def _program(self, file: str, *, own_ids: set[int], is_folders: bool) -> list[ConfigSource]:
        """Runs a user's own program; a folder's is only listed until the folder is trusted."""
        program = read_program(file)
        if not program.is_present:
            return []
        if program.problem is not None:
            self.problems.append(program.problem)
            return []
        if not is_folders:
            sources = self.programs.sources_of(file, is_folders=False)
            return [replace(each, tree=_own_paths(each.tree)) for each in sources]
        if program.owner not in own_ids:
            self.problems.append(Problem(file, 0, 0, _FOREIGN, is_warning=True))
            return []
        return [ConfigSource(file, {}, is_folders=True, program=program.digest, text=program.text)]

    def _warn_of_both(self, file: str, sources: Sequence[ConfigSource]) -> None:
        folder = os.path.dirname(file)  # noqa: PTH120  as written
        both = [each.file for each in sources if os.path.dirname(each.file) == folder]  # noqa: PTH120
        if both and os.path.lexists(file):
            message = f"takes precedence over {PurePath(both[0]).name} in the same folder"
            self.problems.append(Problem(file, 0, 0, message, is_warning=True))

    def _parsed(self, file: str) -> ParsedFile:
        """The file's content, or its last valid content while it is broken."""
        parsed = parse_file(file)
        if not parsed.present:
            return parsed
        last = self.last_sound.get(file)
        problems = parsed.problems
        if last is not None and parsed.is_empty and not last.is_empty:
            # Many editors empty a file before they write it.
            problems = (problem_with_file(file, "it is empty; write {} to configure nothing"),)
        if not problems:
            self.sound[file] = parsed
            return parsed
        suffix = (
            "until then its last valid content applies"
            if last
            else "until then the file is ignored"
        )
        self.problems += [
            replace(problem, message=f"{problem.message} ({suffix})") for problem in problems
        ]
        if last is None:
            self.unknown += problems
            return parsed
        self.sound[file] = last
        return last


def _own_paths(tree: Tree) -> Tree:
    """Moves the user's absolute context paths to those that are read for every workspace."""
    paths = (tree.get("options") or {}).get("context_paths") or []
    outside = [path for path in paths if path.startswith(("/", "~/"))]
    if not outside:
        return tree
    inside = [path for path in paths if path not in outside]
    moved = {"context_paths": inside, "global_context_paths": outside}
    return merge(
        tree | {"options": tree["options"] | {"context_paths": inside}}, {"options": moved}
    )


def _kept_inside(tree: Tree, file: str, path: str, problems: list[Problem]) -> Tree:
    """Drops paths outside the workspace.

    A project must not send its user's files to a model, nor have files written elsewhere.
    """
    options = tree.get("options") or {}
    taken_out: Tree = {}
    if options.get("global_context_paths"):
        key = "options.global_context_paths"
        problems.append(
            warning_with_key(key, "is only used from your own configuration", file=file)
        )
        taken_out["global_context_paths"] = None
    if is_outside(options.get("data_directory") or "", path):
        key = "options.data_directory"
        message = "is outside the folder; only your own configuration may do that"
        problems.append(warning_with_key(key, message, file=file))
        taken_out["data_directory"] = None
    return merge(tree, {"options": taken_out}) if taken_out else tree


def _owner(path: str) -> int:
    try:
        return Path(path).stat().st_uid
    except (OSError, ValueError):
        return 0


def merged_tree(
    path: str,
    *,
    data_dir: str,
    ran: LastTrees | None = None,
    server_env: Mapping[str, str] | None = None,
) -> Tree:
    """Returns the merged files without expansion; the result may contain keys.

    Runs no ``crushrc``: each counts with what it configured at its last run, in ``ran``.
    """
    server = os.environ if server_env is None else server_env
    run = remembered(ran or {})
    read = read_files(path, data_dir=data_dir, server=server, last_sound={}, run=run, last_trees={})
    sources = read.programs.run_folders(read.sources, lets_act=True)
    return merge_all(source.tree for source in sources)


def merge_all(trees: Iterable[Tree]) -> Tree:
    merged: Tree = {}
    for tree in trees:
        merged = merge(merged, tree)
    return merged
