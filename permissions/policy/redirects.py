"""Which redirections only read: from a file, to nowhere, or between open descriptors."""

from __future__ import annotations

import re
from collections.abc import Callable

from permissions.policy.words import Word, WordDoubt

REDIRECTS = {"file_redirect", "herestring_redirect", "heredoc_redirect"}
_REDIRECT = re.compile(r"(?:[0-9]*(?:<|>|>>|>\||<&|>&)|&>|&>>)(?![<>&|])[ \t]*")
_CLOSE = re.compile(r"[0-9]*[<>]&-")
_DESCRIPTOR = re.compile(r"[0-9]{1,4}")  # bash takes other digits, like ``²``, for a file's name
# What may stand directly in front: a word there could be ``{name}`` or ``{name[subscript]}``,
# which makes bash store the descriptor in a variable and evaluate the subscript.
_BEFORE = re.compile(r"(?:^|(?<!\\)[ \t\n]|[;&|(])\Z")


def judge_redirect(
    kind: str, source: str, start: int, end: int, *, word: Callable[[int, int], Word]
) -> Word | None:
    """The file that it reads, if any. Raises ``Doubt`` unless it only reads. ``word`` reads the one word that stands there."""
    if not _BEFORE.search(source, 0, start):
        raise WordDoubt("It redirects directly behind a word, which may set a variable.")
    if _CLOSE.fullmatch(source, start, end):
        return None
    if kind == "heredoc_redirect":
        raise WordDoubt("It holds a here-document.")
    if kind == "herestring_redirect":
        if not source.startswith("<<<", start):
            raise WordDoubt("It is not understood.")
        word(start + 3, end)
        return None
    match = _REDIRECT.match(source, start, end)
    if match is None:
        raise WordDoubt("It redirects in a way that is not judged.")
    operator = match.group().strip(" \t0123456789")
    named = word(match.end(), end)
    target = named.exact
    if target is None:
        raise WordDoubt("It redirects to or from a name that is computed.")
    if operator in {"<&", ">&"} and _DESCRIPTOR.fullmatch(target):
        return None
    if operator == "<":
        # Bash itself opens these two as network connections.
        if target.startswith(("/dev/tcp", "/dev/udp")):
            raise WordDoubt("It reads from the network.")
        return named
    if target != "/dev/null":
        raise WordDoubt("It redirects output into a file.")
    return None
