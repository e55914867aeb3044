"""Rules that prove a program's arguments harmless by a list of its allowed options.

Rules list what is allowed, never what is forbidden: an option that is not listed, an abbreviation
of one, or a word that may expand to one raises ``WordDoubt``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from permissions.policy.words import Shape, Word, WordDoubt

Rule = Callable[[tuple[Word, ...]], None]
"""Returns when the arguments cannot make the program write; else raises ``Doubt``."""

_NUMBER = re.compile(r"-[0-9]+[A-Za-z]*")


def anything(_args: tuple[Word, ...]) -> None:
    """The rule for programs without options that write, run a program or connect."""


def names(*groups: str) -> frozenset[str]:
    return frozenset(name for group in groups for name in group.split())


@dataclass(frozen=True, slots=True)
class Parsed:
    operands: tuple[Word, ...]
    options: frozenset[str]


@dataclass(frozen=True, slots=True)
class Options:
    """A ``Rule`` for options in getopt style.

    Each word that begins with a dash is checked, even if it seems to be the value of another
    option, so that an error in ``valued`` can only reject too much.
    """

    flags: str = ""
    valued: str = ""
    long: frozenset[str] = frozenset()
    long_valued: frozenset[str] = (
        frozenset()
    )  # those of ``long`` that take the next word if there is no ``=``
    operands: int | None = None
    operand: re.Pattern[str] | None = None

    def __call__(self, args: tuple[Word, ...]) -> None:
        found = self.parse(args).operands
        if self.operands is not None and len(found) > self.operands:
            raise WordDoubt("It is given a name that it may write to.")
        for word in found:
            if self.operands is not None and word.shape > Shape.ONE:
                raise WordDoubt("It is given names that are not known.")
            if self.operand and not (word.exact is not None and self.operand.fullmatch(word.text)):
                raise WordDoubt("It is given an argument that is not known to be harmless.")

    def parse(self, args: Iterable[Word]) -> Parsed:
        found: list[Word] = []
        options: set[str] = set()
        pending = ended = False
        for word in args:
            if ended:
                found.append(word)
            elif word.exact == "--" and not pending:
                ended = True
            elif word.is_operand:
                if not pending or word.shape > Shape.ONE:
                    found.append(word)
                pending = False
            elif pending and word.exact and _NUMBER.fullmatch(word.text):
                pending = False
            elif found and self.operands:
                # Some versions read it as one more operand, which they write to.
                raise WordDoubt("It is given an option behind a name.")
            elif word.text.startswith("--"):
                pending = self._long(word, options)
            elif word.exact is not None:
                pending = self._short(word.text, options)
            else:
                raise WordDoubt("It is given a word that may turn into an option.")
        return Parsed(tuple(found), frozenset(options))

    def _long(self, word: Word, options: set[str]) -> bool:
        name, equals, _ = word.text[2:].partition("=")
        # ``--name="$value"`` is one word; without quotes its value may become several.
        if word.exact is None and not (equals and word.shape is Shape.ONE):
            raise WordDoubt("It is given a word that may turn into an option.")
        if name not in self.long:
            raise WordDoubt(f"It is given --{name}, which is not known to be harmless."[:200])
        options.add(name)
        return name in self.long_valued and not equals

    def _short(self, text: str, options: set[str]) -> bool:
        for place, letter in enumerate(text[1:], start=2):
            options.add(letter)
            if letter in self.valued:
                return place == len(text)
            if letter not in self.flags:
                raise WordDoubt(f"It is given {text}, which is not known to be harmless."[:200])
        return False


def only(*spellings: str) -> Rule:
    """Exactly one argument, spelt like this: for ``--version`` of programs that do anything else."""
    allowed = frozenset(spellings)

    def rule(args: tuple[Word, ...]) -> None:
        if len(args) != 1 or args[0].exact not in allowed:
            raise WordDoubt("It runs a program that can do anything.")

    return rule
