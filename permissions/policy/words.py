"""Shell words: parses part of a command line into the arguments that a program may get.

Applies the shell's rules for quotes, escapes and expansions, and determines how much of each word
is certain. Independent of programs. It raises ``WordDoubt`` for everything that it does not fully
understand, and never guesses.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum


class WordDoubt(Exception):
    """The reason why a command cannot be proven read-only: one sentence, shown to people."""


class Shape(IntEnum):
    """The possible expansions of a word, from the most certain to the least."""

    EXACT = 0  # one argument, known
    ONE = 1  # one argument of which only the prefix is known
    EACH = 2  # any number of arguments (a glob, braces); each begins with the prefix
    LOOSE = 3  # any number of arguments of any text: an unquoted variable


@dataclass(frozen=True, slots=True)
class Word:
    text: str  # the whole argument if it is exact, else its certain prefix
    shape: Shape = Shape.EXACT
    # The whole word if only patterns make it uncertain, without the information on quotes.
    pattern: str | None = field(default=None, compare=False)
    names: frozenset[str] = field(default=frozenset(), compare=False)  # variables in it
    is_stream: bool = False  # only the output of another command

    @property
    def exact(self) -> str | None:
        return self.text if self.shape is Shape.EXACT else None

    @property
    def is_operand(self) -> bool:
        """Whether no expansion of the word can be read as an option."""
        if self.shape is Shape.EXACT:
            return self.text == "-" or not self.text.startswith("-")
        return self.shape is not Shape.LOOSE and self.text[:1] not in {"", "-", "+", "(", "!"}


# The arguments that ``xargs`` reads: no shell expands them to file names.
LOOSE = Word("", Shape.LOOSE, names=frozenset({"*"}))

_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?#$@*!-])")
# No assigning default, no indirection, no offset (arithmetic) and no ``@P``: those can run code.
_BRACED = re.compile(r"\$\{#?[A-Za-z_][A-Za-z0-9_]*(?:(?:%%?|##?|:-)[A-Za-z0-9_./*-]*)?\}")
# Digits alone: a name in arithmetic may hold ``a[$(command)]``, which bash runs.
_ARITHMETIC = re.compile(r"\$\(\([0-9 +*/%()-]*\)\)")
_ANSI = re.compile(r"\$'((?:[^'\\\n]|\\[nt\\'])*)'")
_ANSI_ESCAPE = {"\\n": "\n", "\\t": "\t", "\\\\": "\\", "\\'": "'"}
_META = frozenset(";&|<>()\n")
# No permitted command sets these, so they are absolute paths; a folder's name may have blanks.
_ABSOLUTE = frozenset({"HOME", "PWD"})


@dataclass(slots=True)
class _Draft:
    text: list[str] = field(default_factory=list)
    bare: list[str] = field(
        default_factory=list
    )  # the same, with quoted characters replaced by NUL
    certain: int | None = None  # number of characters before the first expansion
    shape: Shape = Shape.EXACT
    begun: bool = False
    names: set[str] = field(default_factory=set)
    has_other: bool = False  # an expansion other than a plain variable
    is_stream: bool = False

    def add(self, text: str, *, quoted: bool) -> None:
        self.begun = True
        self.is_stream = False
        self.text.extend(text)
        self.bare.extend("\0" * len(text) if quoted else text)

    def expand(self, shape: Shape) -> None:
        self.begun = True
        self.is_stream = False
        self.shape = max(self.shape, shape)
        if self.certain is None:
            self.certain = len(self.text)

    def word(self) -> Word:
        bare = "".join(self.bare)
        marks = [bare.find(mark) for mark in "*?["]
        if "," in bare or ".." in bare:
            marks.append(bare.find("{"))
        pattern = min((mark for mark in marks if mark >= 0), default=None)
        certain = self.certain
        if pattern is not None:
            certain = pattern if certain is None else min(certain, pattern)
            self.shape = max(self.shape, Shape.EACH)
        # The source has one character for each byte: decode those bytes.
        whole = "".join(self.text).encode("latin-1").decode()
        return Word(
            "".join(self.text[:certain]).encode("latin-1").decode(),
            self.shape,
            pattern=whole if self.certain is None else None,
            names=frozenset() if self.has_other else frozenset(self.names),
            is_stream=self.is_stream,
        )


@dataclass(slots=True)
class _Lexer:
    source: str
    end: int
    substitution: Callable[[int], int]
    at: int
    words: list[Word] = field(default_factory=list)
    draft: _Draft = field(default_factory=_Draft)
    variables: set[str] = field(default_factory=set)

    def run(self) -> tuple[Word, ...]:
        while self.at < self.end:
            self.step()
        if self.at != self.end:
            raise WordDoubt("A quote or an expansion in it does not end where it should.")
        self.close()
        return tuple(self.words)

    def close(self) -> None:
        if self.draft.begun:
            self.words.append(self.draft.word())
            self.draft = _Draft()

    def step(self) -> None:
        char = self.source[self.at]
        if char in " \t":
            self.close()
            self.at += 1
        elif char == "\\":
            self.escape()
        elif char == "'":
            close = self.find("'", self.at + 1)
            self.draft.add(self.source[self.at + 1 : close], quoted=True)
            self.at = close + 1
        elif char == '"':
            self.double()
        elif char in "$`":
            self.dollar(quoted=False)
        elif char in "<>" and self.source.startswith("(", self.at + 1):
            self.process()
        elif char in _META or (char == "#" and not self.draft.begun) or char > "~":
            raise WordDoubt("It holds a character that the shell may read in more than one way.")
        else:
            self.draft.add(char, quoted=False)
            self.at += 1

    def find(self, mark: str, start: int) -> int:
        found = self.source.find(mark, start, self.end)
        if found < 0:
            raise WordDoubt("A quote in it is never closed.")
        return found

    def escape(self) -> None:
        following = self.source[self.at + 1 : min(self.at + 2, self.end)]
        if not following or following == "\n" or following > "~":
            raise WordDoubt("It breaks a word over two lines.")
        self.draft.add(following, quoted=True)
        self.at += 2

    def double(self) -> None:
        self.draft.add("", quoted=True)
        self.at += 1
        while self.at < self.end:
            char = self.source[self.at]
            if char == '"':
                self.at += 1
                return
            if char in "$`":
                self.dollar(quoted=True)
            elif char == "\\":
                following = self.source[self.at + 1 : self.at + 2]
                if following == "\n":
                    raise WordDoubt("It breaks a word over two lines.")
                escaped = following if following in {"$", "`", '"', "\\"} else "\\" + following
                self.draft.add(escaped, quoted=True)
                self.at += 2
            else:
                self.draft.add(char, quoted=True)
                self.at += 1
        raise WordDoubt("A quote in it is never closed.")

    def dollar(self, *, quoted: bool) -> None:
        source, at = self.source, self.at
        shape = Shape.ONE if quoted else Shape.LOOSE
        if match := _ARITHMETIC.match(source, at, self.end):
            self.draft.expand(Shape.ONE)
            self.at = match.end()
        elif source[at] == "`" or source.startswith("$(", at):
            self.draft.expand(shape)
            self.draft.has_other = True
            self.at = self.substitution(at)
        elif match := _VARIABLE.match(source, at, self.end) or _BRACED.match(source, at, self.end):
            name = match.group().strip("${}")
            variable = re.match(r"\$\{?#?(\w+|.)", match.group())
            if variable:
                self.draft.names.add(variable.group(1))
                self.variables.add(variable.group(1))
            if name in _ABSOLUTE and (quoted or name == "HOME"):
                self.draft.add("/", quoted=True)
                shape = Shape.ONE
            if "*" in name.partition(":-")[2]:
                self.draft.has_other = True  # a default that expands to file names
            self.draft.expand(Shape.LOOSE if name == "@" else shape)
            self.at = match.end()
        elif not quoted and (match := _ANSI.match(source, at, self.end)):
            plain = re.sub(r"\\.", lambda found: _ANSI_ESCAPE[found.group()], match.group(1))
            self.draft.add(plain, quoted=True)
            self.at = match.end()
        elif (
            at + 1 == self.end
            or source[at + 1] in " \t/.,:%|)"
            or (quoted and source[at + 1] in {'"', "\\"})
        ):
            self.draft.add("$", quoted=True)
            self.at += 1
        else:
            raise WordDoubt("It holds an expansion that can do more than read a variable.")

    def process(self) -> None:
        if self.source[self.at] == ">":
            raise WordDoubt("It writes into another command.")
        is_first = not self.draft.begun
        if is_first:
            self.draft.add("/dev/fd/", quoted=True)
        self.draft.has_other = True
        self.draft.expand(Shape.ONE)
        self.draft.is_stream = is_first  # until something follows
        self.at = self.substitution(self.at)


def read_words(
    source: str,
    start: int,
    end: int,
    *,
    substitution: Callable[[int], int],
    variables: set[str] | None = None,
) -> tuple[Word, ...]:
    """Returns the words between two offsets; ``source`` has one character for each byte.

    ``substitution`` checks the command substitution that starts at an offset and returns the
    offset after it, or raises ``WordDoubt``. The names of all expanded variables are added to
    ``variables``. Raises ``WordDoubt``.
    """
    lexer = _Lexer(source, end, substitution, start)
    if variables is not None:
        lexer.variables = variables
    return lexer.run()
