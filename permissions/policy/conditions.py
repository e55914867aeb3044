"""``test``, ``[`` and the clauses of ``[[``: comparisons that evaluate nothing.

Bash runs code inside some operands: of ``-v 'a[$(command)]'`` in all three, and of arithmetic
comparisons in ``[[``. So a word that may expand to an operator is not accepted as an operand.
"""

from __future__ import annotations

import re

from permissions.policy.words import Shape, Word, WordDoubt

_UNARY = frozenset(f"-{letter}" for letter in "bcdefghknprsuwxzGLNOS")
_COMPARE = frozenset({"=", "==", "!=", "-nt", "-ot", "-ef"})
_ARITHMETIC = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_NUMBER = re.compile(r"-?[0-9]+")


def compares(args: tuple[Word, ...]) -> None:
    """The rule for ``test``."""
    for clause in _split(args, {"-a", "-o"}):
        _clause(clause, numbers_only=False)


def compares_in_brackets(args: tuple[Word, ...]) -> None:
    """The rule for ``[``."""
    if not args or args[-1].exact != "]":
        raise WordDoubt("It is not understood.")
    compares(args[:-1])


def compares_in_double_brackets(clause: tuple[Word, ...]) -> None:
    """The rule for a clause between ``&&`` and ``||``, where words are not split or globbed."""
    _clause(
        tuple(Word(word.text, min(word.shape, Shape.ONE)) for word in clause), numbers_only=True
    )


def _split(args: tuple[Word, ...], joints: set[str]) -> list[tuple[Word, ...]]:
    parts: list[list[Word]] = [[]]
    for word in args:
        if word.exact in joints:
            parts.append([])
        else:
            parts[-1].append(word)
    if len(parts) > 1 and any(word.exact is None for word in args):
        raise WordDoubt("It compares unknown values in more than one clause.")
    return [tuple(part) for part in parts]


def _clause(clause: tuple[Word, ...], *, numbers_only: bool) -> None:
    if any(word.shape > Shape.ONE for word in clause):
        raise WordDoubt("It compares a value that is not quoted.")
    if clause and clause[0].exact == "!":
        clause = clause[1:]
    if len(clause) <= 1:
        return
    if len(clause) == 2 and clause[0].exact in _UNARY:
        return
    if len(clause) == 3:
        operator = clause[1].exact
        numbers = all(_NUMBER.fullmatch(word.exact or "") for word in (clause[0], clause[2]))
        if operator in _COMPARE or (operator == "=~" and numbers_only):
            return
        if operator in _ARITHMETIC and (numbers or not numbers_only):
            return
    raise WordDoubt("It makes a comparison that is not checked.")
