"""The exit codes of the commands. docs/command-line.md has the same table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class Exit(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    UNAUTHORISED = 4
    OVER_BUDGET = 5
    INTERRUPTED = 130


MEANINGS: Mapping[Exit, str] = {
    Exit.DONE: "the command did what it should",
    Exit.FAILED: "it did not: the message on standard error has the reason",
    Exit.USAGE: "the command line is wrong",
    Exit.UNREACHABLE: "no server runs there, or the network does not lead to it",
    Exit.UNAUTHORISED: "the server refuses the token, or its user lacks the right",
    Exit.OVER_BUDGET: "the run has used up its budget",
    Exit.INTERRUPTED: "Ctrl-C, or the prompt was cancelled",
}
