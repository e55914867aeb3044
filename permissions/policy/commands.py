"""Decides whether a shell command is certain to only read.

Such a command cannot write, run a program that is not checked itself, reach the network, or change
a state that outlives it. Pure: the decision depends on the text of the command only. The answer is
no unless every part is known to be harmless, so unknown commands need a permission request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from permissions.policy.conditions import compares_in_double_brackets
from permissions.policy.prefixes import check_environment, check_local
from permissions.policy.programs import PREFIXES, RULES
from permissions.policy.reads import Reads
from permissions.policy.steps import Loop, Opened, Simple, Step, Test
from permissions.policy.syntax import CommandLine, read_line
from permissions.policy.words import Word, WordDoubt

_PLACES = re.compile(r"(?:/usr)?(?:/local)?/bin/|/opt/homebrew/bin/")


@dataclass(frozen=True, slots=True)
class Verdict:
    read_only: bool
    reason: str  # a sentence, for people
    programs: frozenset[str] = frozenset()  # the programs that a read-only command runs
    reads: Reads | None = None  # ``None`` if the text does not determine it


@dataclass(slots=True)
class _CommandCheck:
    programs: set[str] = field(default_factory=set)
    runs: list[tuple[str, tuple[Word, ...]]] = field(default_factory=list)

    def step(self, step: Step) -> None:
        match step:
            case Opened():
                pass
            case Loop(name):
                check_local(name)
            case Test(words):
                compares_in_double_brackets(words)
            case Simple(assignments, ()):
                for assignment in assignments:
                    if assignment.value.exact is None:
                        check_local(assignment.name)
                    else:
                        self.variable(assignment.name, assignment.value)
            case Simple(assignments, words):
                for assignment in assignments:
                    if assignment.name != "IFS" or words[0].exact != "read":
                        check_environment(assignment.name, assignment.value)
                self.run(words)

    @staticmethod
    def variable(name: str, value: Word) -> None:
        try:
            check_local(name)
        except WordDoubt:
            check_environment(name, value)

    def run(self, words: tuple[Word, ...]) -> None:
        name = words[0].exact if words else None
        if not name:
            raise WordDoubt("It runs a program whose name is computed.")
        place = _PLACES.match(name)
        program = name[place.end() :] if place else name
        self.programs.add(program)
        self.runs.append((program, words[1:]))
        if prefix := PREFIXES.get(program):
            prefix(words[1:], self.run)
        elif rule := RULES.get(program):
            rule(words[1:])
        else:
            raise WordDoubt(f"It runs {program[:60]!r}, which is not known to only read.")


def check_command(command: str) -> Verdict:
    """Returns the verdict on a shell command; never raises."""
    check = _CommandCheck()
    try:
        line = read_line(command)
        for step in line.steps:
            check.step(step)
        if {"cd", "git"} <= check.programs:
            # Another folder may hold a repository whose configuration names programs to run.
            raise WordDoubt("It uses git in another folder.")
    except WordDoubt as doubt:
        return Verdict(read_only=False, reason=str(doubt))
    try:
        reads = _reads(line, check.runs)
    except WordDoubt:
        reads = None
    return Verdict(True, "Everything that it runs only reads.", frozenset(check.programs), reads)


def _reads(line: CommandLine, runs: Sequence[tuple[str, tuple[Word, ...]]]) -> Reads:
    """Returns what the command reads. Raises ``WordDoubt``."""
    own = frozenset(
        [step.name for step in line.steps if isinstance(step, Loop)]
        + [one.name for step in line.steps if isinstance(step, Simple) for one in step.assignments]
        + [word.text for name, words in runs if name == "read" for word in words]
    )
    reads = Reads(variables=set(line.variables - own))
    for step in line.steps:
        match step:
            case Opened(word):
                reads.operands([word])
            case Loop(_, words):
                for word in words:
                    reads.shown(word, own=own)
            case Test(words):
                reads.program("[[", words, own=own)
            case Simple():
                pass
    for name, words in runs:
        if name not in PREFIXES or name == "env":
            reads.program(name, words, own=own)
    return reads


def is_read_only(command: str) -> bool:
    return check_command(command).read_only
