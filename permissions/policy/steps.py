"""The simple commands that a command line may run, without nesting and order."""

from __future__ import annotations

from dataclasses import dataclass

from permissions.policy.words import Word


@dataclass(frozen=True, slots=True)
class VariableAssignment:
    name: str
    value: Word


@dataclass(frozen=True, slots=True)
class Simple:
    """One command as the shell runs it: ``NAME=value… program argument…``."""

    assignments: tuple[VariableAssignment, ...] = ()
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """The variable and the words of a ``for`` loop."""

    name: str
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Test:
    """One clause of ``[[ … ]]``."""

    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Opened:
    """A file that a redirection reads."""

    word: Word


Step = Simple | Loop | Test | Opened
