"""Random command lines that look for what the policy and bash read in two ways.

Half of them grow from a grammar that prefers the joints of the shell's syntax: words without a
blank between them, redirections, braces, subscripts, digits of other scripts. The other half are
lines of the policy's own table with pieces cut out, doubled and spliced in.
"""

from __future__ import annotations

import random
import re

from tests.unit.permissions.command_table import ASKED, READ_ONLY

# Not ones that wait, count for minutes or read a device: they would only use the time up.
_READERS = [
    "ls",
    "cat",
    "head",
    "wc",
    "grep",
    "echo",
    "pwd",
    "cd",
    "true",
    "false",
    ":",
    "printenv",
    "which",
    "type",
    "stat",
    "id",
    "basename",
    "dirname",
    "realpath",
    "cut",
    "tr",
    "nl",
    "od",
    "paste",
    "tac",
    "rev",
    "expr",
    "jq",
    "md5sum",
    "cmp",
    "sort",
    "uniq",
    "rg",
    "find",
    "sed",
    "diff",
    "date",
    "file",
    "base64",
    "strings",
    "xxd",
    "test",
    "[",
    "[[",
    "printf",
    "read",
    "git",
    "env",
    "command",
    "xargs",
    "timeout",
    "time",
    "nice",
    "stdbuf",
]
_WRITERS = [
    "touch OWNED",
    "rm a.txt",
    "./ls",
    "10/ls",
    "sh x",
    "tee OWNED",
    "mkdir OWNED",
    "cp a.txt OWNED",
]
_NAMES = [
    "a.txt",
    "b.txt",
    "src",
    "a",
    "x",
    "10",
    "11",
    ".",
    "*",
    "a.*",
    "src/*",
    "data.json",
    "-delete",
    "-o",
    "--output=OWNED",
    "-exec",
    "-n",
    "-e",
    "-i",
    "-c",
    "1",
    "2",
    "0",
    "+",
    ";",
    "\\;",
    "{}",
    "OWNED",
    "HEAD",
    "--help",
    "-p",
    "-v",
    "]",
    "]]",
    "=",
    "==",
    "-eq",
    "-f",
    "-d",
    "!",
    "(",
    ")",
    "#",
    "~",
    "-",
    "--",
]
_FRAGMENTS = (
    "a", "x", "b", "n", "1", "10", "=", "{x}", "{a[x]}", "{PATH}", "{n}", "{a[0]}", "{a,b}", "{1..3}",
    "[x]", "[", "]", "[$x]", "a[x]", "$x", "${x}", '"$x"', "${#x}", "${x:-a}", "${n:-*}", "${n:-src/*}", "@a.txt", "${a[x]}", "$a", "$((1+2))",
    "$((x))", "$(echo a)", "$(ls)", "`pwd`", '"$(pwd)"', "$(touch OWNED)", "'a'", "'$x'", '"a"', "''", '""',
    "'²'", "²", "٣", "'٣'", '"1²"', "௧", "'³'", "é", "'é'", "你", "\u00a0", "\\", "\\ ", "\\\n", "\\n",
    "$'a'", "$'\\n'", "$'\\x41'", '$"a"', "*", "?", "!", "#", "~", "%", "^", ",", ":", "@", "@(a)", "!(a)", "+",
    "PATH", "PATH=10", "IFS=x", "x=1", "LC_ALL=C", "LC_ALL=zh_CN.GBK", "-", "--", "&", "1&", "&1",
)  # fmt: skip
_OPERATORS = ("<", ">", "<&", ">&", "&>", ">>", "<<<", "<>", ">|", "2>", "2>&", "<<", "<(", ">(")
_TARGETS = (
    "a.txt", "/dev/null", "1", "2", "0", "-", "'²'", '"²"', "²", "'1²'", "٣", "'٣'", "10", "$x", "'x'",
    "OWNED", "&1", "a", "1-", "{x}", "'1'", '"2"', "99999999999", "\\1",
)  # fmt: skip
_STORES = ("", "", "2", "1", "10", "{x}", "{a[x]}", "{PATH}", "{n}", "{x[a]}", "²", "x", "'1'", "-")
_JOINTS = ("; ", " && ", " || ", " | ", "\n", ";", "|", "&&", " & ", " |& ", "\\\n", " # ")
_ATOMS = (
    *_FRAGMENTS,
    *_OPERATORS,
    *_TARGETS,
    *_JOINTS,
    *_NAMES,
    *_STORES,
    " ",
    " ",
    "\t",
    "'",
    '"',
)
_TABLE = [line for table in (READ_ONLY, ASKED) for group in table.values() for line in group]
_LINES = [line for line in _TABLE if len(line) < 200]
_WASTES_TIME = re.compile(
    r"sleep|tail|seq|/dev/(?!null)|(?<![\w.])/(?![\w])|\bdu\b|\blocale\b|\bps\b"
)


class CommandLines:
    """The same seed gives the same lines."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __iter__(self) -> CommandLines:
        return self

    def __next__(self) -> str:
        while True:
            made = self._line(depth=2) if self._random.random() < 0.5 else self._mutated()
            if not _WASTES_TIME.search(made):
                return made

    def _line(self, *, depth: int) -> str:
        draw = self._random
        line = self._statement(depth=depth)
        while draw.random() < 0.35:
            line += draw.choice(_JOINTS) + self._statement(depth=depth)
        wrap = draw.random()
        if wrap < 0.03:
            return f"({line})"
        if wrap < 0.06:
            return f"{{ {line}; }}"
        if wrap < 0.09:
            return f"for x in {self._word()} {self._word()}; do {line}; done"
        if wrap < 0.12:
            return f"while read -r x; do {line}; done < a.txt"
        if wrap < 0.15:
            return f"if {self._statement(depth=1)}; then {line}; fi"
        return line

    def _statement(self, *, depth: int) -> str:
        draw = self._random
        parts: list[str] = []
        if draw.random() < 0.15:
            parts.append(draw.choice(("x=", "n=", "a=", "PATH=", "LC_ALL=", "A=")) + self._word())
        parts.append(draw.choice(_WRITERS) if draw.random() < 0.05 else draw.choice(_READERS))
        for _ in range(draw.randrange(4)):
            if depth and draw.random() < 0.05:
                parts.append(f"$({self._line(depth=depth - 1)})")
            elif draw.random() < 0.45:
                parts.append(draw.choice(_NAMES))
            else:
                parts.append(self._word())
        while draw.random() < 0.35:
            parts.insert(draw.randrange(len(parts) + 1), self._redirect())
        return "".join(part + ("" if draw.random() < 0.06 else " ") for part in parts).rstrip(" ")

    def _word(self) -> str:
        draw = self._random
        fragments = [draw.choice(_FRAGMENTS) for _ in range(draw.choice((1, 1, 1, 2, 3)))]
        return "".join(fragments)

    def _redirect(self) -> str:
        draw = self._random
        blank = draw.choice(("", "", " "))
        return draw.choice(_STORES) + draw.choice(_OPERATORS) + blank + draw.choice(_TARGETS)

    def _mutated(self) -> str:
        draw = self._random
        line = draw.choice(_LINES)
        for _ in range(draw.choice((1, 1, 2, 3))):
            at = draw.randrange(len(line) + 1)
            end = min(len(line), at + draw.randrange(1, 6))
            match draw.randrange(6):
                case 0:
                    line = line[:at] + line[end:]
                case 1:
                    line = line[:at] + line[at:end] * 2 + line[end:]
                case 2:
                    line = line[:at] + self._redirect() + line[at:]
                case 3:
                    line = line + draw.choice(_JOINTS) + draw.choice(_LINES)
                case _:
                    line = line[:at] + draw.choice(_ATOMS) + line[at:]
        return line
