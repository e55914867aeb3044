"""Programs that run the program in their arguments, and variables set for a program.

The program that they run is checked instead, by the function in ``check``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from permissions.policy.options import Options, names
from permissions.policy.words import LOOSE, Word, WordDoubt

CheckProgram = Callable[[tuple[Word, ...]], None]

_LOCALE_NAME = re.compile(r"LANG|LC_[A-Z]+")
# In other encodings a backslash or a quote may be the second byte of a character, so a
# program would read other text than was checked. No slash: a locale may be loaded from a path.
_LOCALE = re.compile(r"(?:C|POSIX|(?:C|[a-z]{2,3}(?:_[A-Z]{2})?)\.(?:UTF-?8|utf-?8)(?:@[a-z]+)?)?")
_LANGUAGES = re.compile(r"[A-Za-z_@:]*")  # which translations are shown, in the locale's encoding
_PLAIN = re.compile(r"[A-Za-z0-9_.,:+-]*")
_ZONE = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*")
_SWITCHES = names("NO_COLOR CLICOLOR CLICOLOR_FORCE FORCE_COLOR COLUMNS LINES")
_PAGERS = names("PAGER GIT_PAGER")
_LOCAL = re.compile(r"[a-z_][a-z0-9_]{0,40}|[A-Z]")
_DURATION = re.compile(r"[0-9]+(?:\.[0-9]+)?[smhd]?")
_BUFFER = re.compile(r"-[ioe](?:0|L|[0-9]+[KMG]?)")


def check_environment(name: str, value: Word) -> None:
    """Checks a variable of a program's environment: only those that affect output pass."""
    text = value.exact
    if text is not None and (
        (_LOCALE_NAME.fullmatch(name) and _LOCALE.fullmatch(text))
        or (name == "LANGUAGE" and _LANGUAGES.fullmatch(text))
        or (name in _SWITCHES and _PLAIN.fullmatch(text))
        or (name == "TZ" and _ZONE.fullmatch(text))
        or (name in _PAGERS and text in {"", "cat"})
        or (name == "GIT_OPTIONAL_LOCKS" and text == "0")  # with others git writes its index
    ):
        return
    raise WordDoubt(f"It sets {name[:60]}, which may change what runs.")


def is_known_locale(env: Mapping[str, str]) -> bool:
    """Whether programs read text as it was checked: byte by byte, or as UTF-8."""
    return all(
        _LOCALE.fullmatch(value) for name, value in env.items() if _LOCALE_NAME.fullmatch(name)
    )


def check_local(name: str) -> None:
    """Checks a shell variable: its name must have no meaning to any program."""
    if not _LOCAL.fullmatch(name):
        raise WordDoubt(f"It sets {name[:60]}, which may change what runs.")


def env(args: tuple[Word, ...], check: CheckProgram) -> None:
    rest = args
    while rest and rest[0].exact is not None and re.match(r"[A-Za-z_]\w*=", rest[0].text):
        name, _, value = rest[0].text.partition("=")
        check_environment(name, Word(value))
        rest = rest[1:]
    if not rest:
        return
    if not rest[0].is_operand:
        raise WordDoubt("It changes the environment of what it runs.")
    check(rest)


def timeout(args: tuple[Word, ...], check: CheckProgram) -> None:
    rest = args
    while rest and rest[0].exact in {"--foreground", "--preserve-status"}:
        rest = rest[1:]
    while len(rest) > 1 and rest[0].exact in {"-k", "-s"} and rest[1].exact:
        rest = rest[2:]
    if not rest or not _DURATION.fullmatch(rest[0].exact or ""):
        raise WordDoubt("Its time limit is not understood.")
    check(rest[1:])


def nice(args: tuple[Word, ...], check: CheckProgram) -> None:
    rest = args
    if len(rest) > 1 and rest[0].exact == "-n" and re.fullmatch(r"-?[0-9]+", rest[1].exact or ""):
        rest = rest[2:]
    check(rest)


def stdbuf(args: tuple[Word, ...], check: CheckProgram) -> None:
    rest = args
    while rest and _BUFFER.fullmatch(rest[0].exact or ""):
        rest = rest[1:]
    check(rest)


def time(args: tuple[Word, ...], check: CheckProgram) -> None:
    # ``-p`` alone: the program of this name has ``-o FILE``.
    check(args[1:] if args and args[0].exact == "-p" else args)


def command(args: tuple[Word, ...], check: CheckProgram) -> None:
    """``command -v NAME…`` looks a program up; without an option it runs one."""
    if not args or args[0].exact not in {"-v", "-V"}:
        check(args)


_XARGS_FLAGS = re.compile(r"-(?:0|r|0r|r0|t|x|[nLP][0-9]+|d.|d\\[nt0])")
_XARGS_VALUED = names("-n -L -P -d")
_PLACEHOLDERS = names("{} % @")  # not allowed in the name of the program
_XARGS_LONG = names("--null --no-run-if-empty --verbose")


def xargs(args: tuple[Word, ...], check: CheckProgram) -> None:
    """The rule for ``xargs``: its input becomes arguments, so any argument must be harmless."""
    rest, replaces = args, False
    while rest and (text := rest[0].exact) is not None and text.startswith("-"):
        if text == "-I" and len(rest) > 1 and rest[1].exact in _PLACEHOLDERS:
            replaces, rest = True, rest[2:]
        elif text.startswith("-I") and text[2:] in _PLACEHOLDERS:
            replaces, rest = True, rest[1:]
        elif text in _XARGS_VALUED and len(rest) > 1 and rest[1].exact:
            rest = rest[2:]
        elif _XARGS_FLAGS.fullmatch(text) or text in _XARGS_LONG:
            rest = rest[1:]
        else:
            raise WordDoubt(f"It is given {text[:60]}, which is not known to be harmless.")
    if not rest:
        return
    # A placeholder may be in any argument, so all arguments are unknown.
    check((rest[0], LOOSE) if replaces else (*rest, LOOSE))


READ = Options(flags="rs", valued="d", operand=_LOCAL)
"""``read`` into names that mean nothing to a program."""
