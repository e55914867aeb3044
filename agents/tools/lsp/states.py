"""The status of a language server, as it is stored and sent to clients."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class LanguageServerStatus(IntEnum):
    """The values of the wire format."""

    UNSTARTED = 0
    STARTING = 1
    READY = 2
    ERROR = 3
    STOPPED = 4
    DISABLED = 5


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The complete new status of one server."""

    name: str
    state: LanguageServerStatus
    error: str = ""
    diagnostic_count: int = 0
    pid: int = 0
    pid_started: str = ""
    is_connected: bool = False  # since this change
    only_diagnostics: bool = False  # nothing else has changed
