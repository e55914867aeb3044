"""What a command line may run: its simple commands, without their nesting and order."""

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
    """A name that a ``for`` loop gives values to."""

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
