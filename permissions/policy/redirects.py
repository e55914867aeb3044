"""Which redirections only read: from a file, to nowhere, or between open descriptors."""

from __future__ import annotations

import re
from collections.abc import Callable

from permissions.policy.words import Doubt, Word

REDIRECTS = {"file_redirect", "herestring_redirect", "heredoc_redirect"}
_REDIRECT = re.compile(r"(?:[0-9]*(?:<|>|>>|>\||<&|>&)|&>|&>>)(?![<>&|])[ \t]*")
_CLOSE = re.compile(r"[0-9]*[<>]&-")


def judge_redirect(
    kind: str, source: str, start: int, end: int, *, word: Callable[[int, int], Word]
) -> None:
    """Raises ``Doubt`` unless it only reads. ``word`` reads the one word that stands there."""
    if _CLOSE.fullmatch(source, start, end):
        return
    if kind == "heredoc_redirect":
        raise Doubt("It holds a here-document.")
    if kind == "herestring_redirect":
        if not source.startswith("<<<", start):
            raise Doubt("It is not understood.")
        word(start + 3, end)
        return
    match = _REDIRECT.match(source, start, end)
    if match is None:
        raise Doubt("It redirects in a way that is not judged.")
    operator = match.group().strip(" \t0123456789")
    target = word(match.end(), end).exact
    if target is None:
        raise Doubt("It redirects to or from a name that is computed.")
    if operator in {"<&", ">&"} and target.isdigit():
        return
    if operator == "<":
        # Bash itself opens these two as network connections.
        if target.startswith(("/dev/tcp", "/dev/udp")):
            raise Doubt("It reads from the network.")
    elif target != "/dev/null":
        raise Doubt("It redirects output into a file.")
