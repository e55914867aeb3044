"""The command line of one of our commands, for messages that name it."""

from __future__ import annotations

import sys
from pathlib import Path

PROGRAM = "crush-server"
CHECKOUT_PROGRAM = "manage.py"


def command_line(name: str) -> str:
    """``crush-server NAME``; in a checkout ``manage.py NAME``, or ``bin/serve``."""
    if Path(sys.argv[0]).name != CHECKOUT_PROGRAM:
        return f"{PROGRAM} {name}"
    return "bin/serve" if name == "serve" else f"{CHECKOUT_PROGRAM} {name}"
