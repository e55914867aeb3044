"""Determines which paths and variables a read-only command may read.

Pure. Every word counts as a path, also inside an option, unless its program is known to use it
otherwise. Raises ``WordDoubt`` for what the text does not determine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from permissions.policy.options import names
from permissions.policy.words import Shape, Word, WordDoubt

_UNKNOWN = "It reads a path that is not known before it runs."
_NO_FILES = names(
    "echo printf true false : seq expr sleep basename dirname tr env printenv which type whereis "
    "id whoami groups uname nproc tty uptime free locale getconf logname numfmt factor lscpu lsblk "
    "pgrep read hostname df ps"
)
_PATTERN_FIRST = names("grep egrep fgrep rg sed jq fd fdfind")
_PATTERN_OPTION = re.compile(r"-[^-]*[ef].*|--(?:regexp|files?|expression|from-file).*")
_SEPARATED = names("cut sort paste column")
_SUMS = names("cksum sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum shasum md5")
# Options with which a program follows symlinks inside folders, or reads names from a file.
_FOLLOWING: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("grep", "egrep", "fgrep"), re.compile(r"-[^-]*[RS]|--dere.*")),
    "rg": re.compile(r"-[^-]*L|--follow"),
    "find": re.compile(r"-L|-H|-follow"),
    **dict.fromkeys(("fd", "fdfind"), re.compile(r"-[^-]*L|--follow")),
    "du": re.compile(r"-[^-]*[LHD]|--d.*|--f.*"),
    "wc": re.compile(r"--f.*"),
    "ls": re.compile(r"-[^-]*[LH]|--d.*"),
    "tree": re.compile(r"-[^-]*l"),
    **dict.fromkeys(_SUMS, re.compile(r"-[^-]*c.*|--c.*")),
    "file": re.compile(r"-[^-]*f|--files-from.*"),
}
_FILE_TESTS = frozenset(f"-{letter}" for letter in "bcdefghkprsuwxGLNOS")
_COMPARES_FILES = frozenset({"-nt", "-ot", "-ef"})
# With these a filter can load a file or show the environment.
_JQ_REACHES_OUT = re.compile(r"import|include|env|ENV|input_filename|modulemeta|debug|getpath\(")
# Sections of git's configuration that hold no passwords; the user's own file is outside.
_GIT_KEY = re.compile(
    r"(?:user|core|branch|remote|init|pull|push|merge|diff|fetch|rebase|commit|color|alias|submodule)\..*"
)
_DOTS = re.compile(r"[.*?]*\.[.*?]*(?:\[.*)?")  # may be replaced by dots alone
_NO_DOT = re.compile(r"\[[!^]\.\]")
_HARMLESS_FILES = frozenset({"-", "/dev/null", "/dev/stdin"})
_NOT_A_NAME = frozenset("?#$!@*-0123456789")


@dataclass(slots=True)
class Reads:
    """The input of a command: ``paths`` as written, and ``patterns`` that the shell expands."""

    paths: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    folders: list[str] = field(default_factory=list)  # where ``cd`` goes
    variables: set[str] = field(default_factory=set)
    shows_environment: bool = False

    def program(self, name: str, args: Sequence[Word], *, own: frozenset[str]) -> None:
        """Adds what a program reads. Raises ``WordDoubt``.

        ``own``: the variables that the command itself sets.
        """
        if name == "cd":
            self._enter(args)
        elif name in {"env", "printenv"}:
            self._environment(args)
        elif rule := _RULES.get(name):
            self.operands(rule(args))
        elif name in _NO_FILES:
            if name == "ps" and any(_shows_environment(word) for word in args):
                raise WordDoubt("It shows the environment of other programs.")
            for word in args:
                self.shown(word, own=own)
        else:
            self.operands(_suspects(name, args))

    def operands(self, words: Iterable[Word]) -> None:
        for word in words:
            if word.is_stream:
                continue
            if word.pattern is not None and word.shape is Shape.EACH:
                self._pattern(word.pattern)
            elif word.exact is None:
                raise WordDoubt(_UNKNOWN)
            else:
                self._exact(word.text)

    def shown(self, word: Word, *, own: frozenset[str]) -> None:
        """Adds a word that is not a path, but that the shell may expand to file names."""
        if word.shape is Shape.EACH:
            self.operands([word])
            return
        set_here = own & (word.names - _NOT_A_NAME)
        is_unknown = word.shape is Shape.LOOSE and (not word.names or bool(set_here))
        if is_unknown or (word.exact or "").startswith("~"):
            raise WordDoubt(_UNKNOWN)

    def _exact(self, text: str) -> None:
        if text in _HARMLESS_FILES:
            return
        parts = {text, text.lstrip("@"), *_behind_each(text, "=")}
        if text.startswith("-") and not text.startswith("--"):
            # A value may follow its letter directly: ``-f/etc/x``, ``-nf../x``.
            parts |= {text[start:] for start in range(2, len(text))}
        if any(part.startswith("~") for part in parts):
            raise WordDoubt(_UNKNOWN)
        self.paths |= {part for part in parts if part} - _HARMLESS_FILES

    def _pattern(self, pattern: str) -> None:
        # The shell expands braces before patterns: ``{a,/etc}/*``.
        if re.search(r"[{,]\.?\.?/|\{[^}]*/|\.\.\}|^~|[=,{:]~", pattern):
            raise WordDoubt(_UNKNOWN)
        found = {part for part in (pattern, *_behind_each(pattern, "=")) if part}
        if any(_may_become_parent(name) for part in found for name in part.split("/")):
            raise WordDoubt(_UNKNOWN)
        self.patterns |= found

    def _enter(self, args: Sequence[Word]) -> None:
        if len(args) != 1 or args[0].exact is None or args[0].text.startswith(("-", "~")):
            raise WordDoubt(_UNKNOWN)
        self.folders.append(args[0].text)

    def _environment(self, args: Sequence[Word]) -> None:
        rest = [word for word in args if word.exact is None or "=" not in word.text]
        if not rest or any(word.exact is None for word in rest):
            self.shows_environment = True
        self.variables |= {word.text for word in rest if word.exact}


def _may_become_parent(name: str) -> bool:
    """Whether one component of a path, with wildcards, may expand to ``..``.

    In many shells ``.*`` matches it, and braces can produce it: ``.{.,x}``.
    """
    pieces = re.split("[{},]", _NO_DOT.sub("x", name))
    return (
        name not in {".", ".."}
        and not name.startswith(("*", "?", "["))  # a wildcard at the start matches no dot
        and any(_DOTS.fullmatch(piece) for piece in pieces)
    )


def _behind_each(text: str, mark: str) -> list[str]:
    return [text[found.end() :] for found in re.finditer(re.escape(mark), text)]


def _shows_environment(word: Word) -> bool:
    """Whether an argument of ``ps`` shows the environment: ``e``, ``axe``, and ``-E`` on BSD."""
    if word.exact is None or "environ" in word.text:
        return True
    return "E" in word.text if word.text.startswith("-") else "e" in word.text


def _suspects(name: str, args: Sequence[Word]) -> Iterable[Word]:
    follows = _FOLLOWING.get(name)
    if follows and any(follows.fullmatch(word.text) for word in args):
        raise WordDoubt("It follows links to wherever they lead.")
    if name in _SEPARATED:
        return _without_separator(args)
    if name not in _PATTERN_FIRST:
        return args
    return _without_pattern(args)


def _without_separator(args: Sequence[Word]) -> list[Word]:
    """Drops separators like ``cut -d/`` and ``sort -t /``, where a slash is not a path."""
    return [
        word
        for index, word in enumerate(args)
        if not re.fullmatch("-[dts]/", word.text)
        and not (word.exact == "/" and index and args[index - 1].exact in {"-d", "-t", "-s"})
    ]


def _without_pattern(args: Sequence[Word]) -> Sequence[Word]:
    """Drops the first operand, a pattern, unless an option replaces it."""
    if any(_PATTERN_OPTION.fullmatch(word.text) for word in args):
        return args
    for index, word in enumerate(args):
        if word.shape > Shape.ONE:
            break  # the first name that it expands to is the pattern, and all others are files
        if word.is_operand:
            return [*args[:index], *args[index + 1 :]]
    return args


def _sed(args: Sequence[Word]) -> Iterable[Word]:
    scripts = [index + 1 for index, word in enumerate(args) if word.exact == "-e"]
    if not scripts:
        scripts = [i for i, word in enumerate(args) if word.is_operand][:1]
    return [word for index, word in enumerate(args) if index not in scripts]


def _jq(args: Sequence[Word]) -> Iterable[Word]:
    for word in args:
        if word.exact is None or _JQ_REACHES_OUT.search(word.text):
            raise WordDoubt("Its filter may read other files or the environment.")
        if re.fullmatch(r"-[^-]*[fL].*|--(?:from-file|rawfile|slurpfile|argfile|lib).*", word.text):
            raise WordDoubt(_UNKNOWN)
    return _without_pattern(args)


def _diff(args: Sequence[Word]) -> Iterable[Word]:
    given = [word.text for word in args]
    if "--no-dereference" not in given and any(
        re.fullmatch(r"-[^-]*r.*|--recursive", text) for text in given
    ):
        raise WordDoubt("It follows links to wherever they lead.")
    yield from args
    if "--no-dereference" in given:
        return
    for word in args:
        # With two folders it compares their content and follows symlinks.
        if word.pattern and word.is_operand:
            yield Word(word.text, Shape.EACH, pattern=f"{word.pattern.rstrip('/')}/*")


def _strings(args: Sequence[Word]) -> Iterable[Word]:
    for word in args:
        # ``@FILE`` stands for the arguments that the file holds.
        if word.text.startswith("@") or (word.exact is None and not word.text):
            raise WordDoubt(_UNKNOWN)
    return args


def _test(args: Sequence[Word]) -> Iterable[Word]:
    spelt = [None, *(word.exact for word in args), None]
    for before, word, after in zip(spelt, args, spelt[2:], strict=False):
        if before in _FILE_TESTS | _COMPARES_FILES or after in _COMPARES_FILES:
            yield word


def _git(args: Sequence[Word]) -> Iterable[Word]:
    rest = list(args)
    while rest and rest[0].text.startswith("-"):
        del rest[0]
    if not rest or rest[0].exact != "config":
        return rest
    given = {word.text for word in rest[1:]}
    keys = {text for text in given if not text.startswith("-")} - {"get", "list"}
    is_get = given & {"--get", "--get-all", "get"} or len(rest) == 2
    gets = is_get and keys and all(map(_GIT_KEY.fullmatch, keys))
    if given & {"--global", "--system"} or not ("--local" in given or gets):
        raise WordDoubt("It shows the user's own configuration of git.")
    return []


_RULES: Mapping[str, Callable[[Sequence[Word]], Iterable[Word]]] = {
    "sed": _sed,
    "jq": _jq,
    "diff": _diff,
    "strings": _strings,
    "test": _test,
    "[": _test,
    "[[": _test,
    "git": _git,
}
