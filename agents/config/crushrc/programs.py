"""Runs the ``crushrc`` files of a workspace's configuration when they are allowed to run.

A user's own file runs while files are read. A folder's file runs after a person has trusted the
folder. Its configuration is then trusted too, because the person has reviewed its text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from agents.config.crushrc.bash import Evaluated, evaluate
from agents.config.expand import variables
from agents.config.parse import SIZE_LIMIT, Tree
from agents.config.problem import Problem, problem_with_file
from agents.config.regular_file import Unreadable, read_regular_file
from agents.config.schema import check
from agents.config.trust.sources import ConfigSource

Run: TypeAlias = Callable[[str], Evaluated]
# What each file configured when it last could be run, by file.
LastTrees: TypeAlias = Mapping[str, tuple[Tree, ...]]


@dataclass(frozen=True, slots=True)
class ProgramFile:
    is_present: bool
    owner: int = -1
    digest: str = ""
    text: str = field(default="", repr=False)
    problem: Problem | None = None


def read_program(file: str) -> ProgramFile:
    try:
        content = read_regular_file(file, limit=SIZE_LIMIT)
    except Unreadable as refusal:
        problem = None if refusal.missing else problem_with_file(file, refusal.reason)
        return ProgramFile(is_present=not refusal.missing, problem=problem)
    if content.truncated:
        problem = problem_with_file(file, f"it is larger than {SIZE_LIMIT} bytes")
        return ProgramFile(is_present=True, owner=content.owner, problem=problem)
    return ProgramFile(
        is_present=True,
        owner=content.owner,
        digest=hashlib.sha256(content.data).hexdigest(),
        text=content.data.decode("utf-8", "replace"),
    )


def program_environment(given: Mapping[str, str], server: Mapping[str, str]) -> dict[str, str]:
    """Returns the client's variables over the server's, without the server's secrets."""
    lookup = variables(given, server)
    values = {name: lookup(name) for name in (*server, *given)}
    return {name: value for name, value in values.items() if value is not None}


def runner(env: Mapping[str, str]) -> Run:
    return lambda file: evaluate(file, env=env)


def remembered(trees: LastTrees) -> Run:
    """Returns a ``Run`` that runs nothing and returns the trees of each file's last run."""
    return lambda file: Evaluated(trees.get(file, ()))


@dataclass(slots=True)
class Programs:
    """Runs programs and keeps what they configure."""

    run: Run
    last: LastTrees
    problems: list[Problem]
    ran: dict[str, tuple[Tree, ...]] = field(default_factory=dict)
    # Errors that may hide the choice of a model.
    unknown: list[Problem] = field(default_factory=list)

    def sources_of(self, file: str, *, is_folders: bool) -> list[ConfigSource]:
        """Runs the file and returns its sources; if it cannot run, those of its last run."""
        evaluated = self.run(file)
        trees = evaluated.trees
        self.problems += evaluated.problems
        self.unknown += [problem for problem in evaluated.problems if _may_choose_model(problem)]
        if evaluated.fault is not None:
            trees = self.last.get(file, ())
            if file not in self.last:
                self.unknown.append(evaluated.fault)
            holds = (
                "until then its last valid content applies"
                if trees
                else "until then the file is ignored"
            )
            message = f"{evaluated.fault.message} ({holds})"
            self.problems.append(replace(evaluated.fault, message=message))
        self.ran[file] = trees
        sources: list[ConfigSource] = []
        for raw in trees:
            tree, misfits = check(raw)
            self.problems += [Problem(file, 0, 0, misfit.message, misfit.key) for misfit in misfits]
            sources.append(ConfigSource(file, tree, is_folders=is_folders, is_let_in=is_folders))
        return sources

    def run_folders(self, sources: Sequence[ConfigSource], *, lets_act: bool) -> list[ConfigSource]:
        """Replaces the folder's programs by the sources that they make, or leaves them out."""
        made: list[ConfigSource] = []
        for source in sources:
            if not source.program:
                made.append(source)
            elif lets_act:
                made += [
                    self._without_data_directory(each)
                    for each in self.sources_of(source.file, is_folders=True)
                ]
        return made

    def _without_data_directory(self, source: ConfigSource) -> ConfigSource:
        """Drops the data directory, which had to be known before the program could run."""
        options = source.tree.get("options") or {}
        if "data_directory" not in options:
            return source
        message = "cannot be set by a folder's crushrc; set it in the folder's crush.json"
        self.problems.append(Problem(source.file, 0, 0, message, "options.data_directory"))
        kept = {name: value for name, value in options.items() if name != "data_directory"}
        return replace(source, tree=source.tree | {"options": kept})


def _may_choose_model(problem: Problem) -> bool:
    """Whether the problem is a failed ``provider`` or ``model``, or a line that bash cannot run."""
    return problem.key.partition(" ")[0] in {"", "provider", "model"}
