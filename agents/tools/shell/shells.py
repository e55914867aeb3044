"""Which shell runs a command, and a command that waits at its start until it may go."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence

GO = b"go\n"

# ``exec`` keeps the process: the pid and the start time that were recorded stay true. When
# the one who holds the gate dies, the read fails and nothing was ever run.
_GATE = 'read -r go && exec "$@" </dev/null'


def shell_command(command: str, env: Mapping[str, str]) -> list[str]:
    path = env.get("PATH")
    shell = shutil.which("bash", path=path) or shutil.which("sh", path=path) or "/bin/sh"
    return [shell, "-c", command]


def gated(argv: Sequence[str]) -> list[str]:
    """The same command, which begins when ``GO`` comes on its standard input."""
    return ["/bin/sh", "-c", _GATE, "sh", *argv]
