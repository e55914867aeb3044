"""The terminal of a command, and its output as text that every client can draw."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import termios

_LINES = 50
# Keeps colours; removes sequences that move the cursor, set titles or reach a clipboard.
_NOT_COLOUR = re.compile(
    r"\x1b(?:"
    r"\[(?![0-9;:]*m)[0-?]*[ -/]*(?:[@-~]|$)"  # control sequences, except for colours
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, clipboards and other strings
    r"|[ -/]+[0-~]"  # character sets
    r"|[0-Z\\`-~]"  # sequences of one letter
    r")"
)
_OVERSTRUCK = re.compile(r"[^\n\x1b]\x08")  # how manual pages make letters bold
_OTHER_CONTROLS = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[0-9;:]*m)")


def open_terminal(columns: int) -> tuple[int, int]:
    """Returns the side to read and the side that the command writes to. Raises ``OSError``."""
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
    """Converts terminal output to text with colours, which every client can safely draw."""
    text = _NOT_COLOUR.sub("", text.replace("\r\n", "\n"))
    return _OTHER_CONTROLS.sub("", _OVERSTRUCK.sub("", _overwritten(text)))


def _overwritten(text: str) -> str:
    """Keeps the newest state of each line: a progress bar overwrites its line."""
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
