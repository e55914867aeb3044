"""Is a shell command sure to read only?

Read-only means: it cannot write, run anything that is not itself judged, reach
the network, or change a state that outlives it. Pure: a command is judged by
its text alone. The answer is no unless every part is known to be harmless, so
what is not understood is asked about.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from permissions.policy.conditions import compares_in_double_brackets
from permissions.policy.prefixes import check_environment, check_local
from permissions.policy.programs import PREFIXES, RULES
from permissions.policy.steps import Loop, Simple, Step, Test
from permissions.policy.syntax import read_steps
from permissions.policy.words import Doubt, Word

_PLACES = re.compile(r"(?:/usr)?(?:/local)?/bin/|/opt/homebrew/bin/")


@dataclass(frozen=True, slots=True)
class Verdict:
    read_only: bool
    reason: str  # a sentence, for people
    programs: frozenset[str] = frozenset()  # what it runs, where it only reads


@dataclass(slots=True)
class _Judge:
    programs: set[str] = field(default_factory=set)

    def step(self, step: Step) -> None:
        match step:
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
        except Doubt:
            check_environment(name, value)

    def run(self, words: tuple[Word, ...]) -> None:
        name = words[0].exact if words else None
        if not name:
            raise Doubt("It runs a program whose name is computed.")
        place = _PLACES.match(name)
        program = name[place.end() :] if place else name
        self.programs.add(program)
        if prefix := PREFIXES.get(program):
            prefix(words[1:], self.run)
        elif rule := RULES.get(program):
            rule(words[1:])
        else:
            raise Doubt(f"It runs {program[:60]!r}, which is not known to only read.")


def judge(command: str) -> Verdict:
    """Never raises. ``command`` is what a shell would be given to run."""
    judging = _Judge()
    try:
        for step in read_steps(command):
            judging.step(step)
        if {"cd", "git"} <= judging.programs:
            # Another folder may hold a repository whose configuration names programs to run.
            raise Doubt("It uses git in another folder.")
    except Doubt as doubt:
        return Verdict(read_only=False, reason=str(doubt))
    return Verdict(True, "Everything that it runs only reads.", frozenset(judging.programs))


def is_read_only(command: str) -> bool:
    return judge(command).read_only
