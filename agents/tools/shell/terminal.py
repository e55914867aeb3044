"""A terminal without a keyboard: what a command prints on when it should think of a screen.

Nobody types and nothing is echoed; lines end as in a pipe. The command has no
controlling terminal, so that a program that asks for a password fails at once.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import termios

_LINES = 50
# Colours stay; whatever else would move the cursor, set titles or reach a clipboard goes.
_NOT_COLOUR = re.compile(
    r"\x1b(?:"
    r"\[(?![0-9;:]*m)[0-?]*[ -/]*(?:[@-~]|$)"  # control sequences but those for colours
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, clipboards and other strings
    r"|[ -/]+[0-~]"  # character sets
    r"|[0-Z\\`-~]"  # what is one letter long
    r")"
)
_OVERSTRUCK = re.compile(r"[^\n\x1b]\x08")  # how manual pages make letters bold
_OTHER_CONTROLS = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[0-9;:]*m)")


def open_terminal(columns: int) -> tuple[int, int]:
    """The side to read, and the side that the command writes to. Raises ``OSError``."""
    reads, writes = os.openpty()
    try:
        fcntl.ioctl(writes, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, columns, 0, 0))
        mode = termios.tcgetattr(writes)
        mode[1] &= ~termios.OPOST
        mode[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
        termios.tcsetattr(writes, termios.TCSANOW, mode)
    except BaseException:
        os.close(reads)
        os.close(writes)
        raise
    return reads, writes


def shown(text: str) -> str:
    """What was printed for a screen as text with colours: safe for every client to draw."""
    text = _NOT_COLOUR.sub("", text.replace("\r\n", "\n"))
    return _OTHER_CONTROLS.sub("", _OVERSTRUCK.sub("", _overwritten(text)))


def _overwritten(text: str) -> str:
    """A progress bar draws over its line: its newest state counts."""
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
