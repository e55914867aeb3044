"""The command line of one of our commands: for messages that name it, and to start it again."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

PROGRAM = "crush-server"
CHECKOUT_PROGRAM = "manage.py"


def command_line(name: str) -> str:
    """``crush-server NAME``; in a checkout ``manage.py NAME``, or ``bin/serve``."""
    if Path(sys.argv[0]).name != CHECKOUT_PROGRAM:
        return f"{PROGRAM} {name}"
    return "bin/serve" if name == "serve" else f"{CHECKOUT_PROGRAM} {name}"


def restart(name: str, given: Sequence[str]) -> NoReturn:
    """Replaces this process by the same command, which then begins without Django."""
    script = str(Path(__file__).with_name("__main__.py").resolve())
    os.execv(sys.executable, [sys.executable, script, name, *given])  # noqa: S606  this very program
