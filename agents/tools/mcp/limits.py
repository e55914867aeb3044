"""The stated sizes and times of what MCP servers may give and take.

A server is another's program: everything that comes from one is counted here
before anything is made of it.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_MESSAGE_BYTES = 16 * 1024 * 1024  # one message of a server
MAX_STDERR_BYTES = 8_192  # the end of what a server said there
MAX_ERROR_CHARS = 1_000
MAX_PAGES = 50  # of a list
MAX_TOOLS = 200
MAX_PROMPTS = 200
MAX_RESOURCES = 1_000
MAX_ARGUMENTS = 100  # of a prompt
MAX_NAME_CHARS = 200
MAX_URI_CHARS = 4_096
MAX_TITLE_CHARS = 500
MAX_DESCRIPTION_CHARS = 4_096
MAX_SCHEMA_BYTES = 64 * 1024
MAX_SCHEMA_DEPTH = 32
MAX_CALL_BYTES = 2 * 1024 * 1024  # a call's arguments
MAX_RESULT_CHARS = 100_000
MAX_ITEMS = 200  # parts of one result
MAX_RESOURCE_BYTES = 8 * 1024 * 1024  # what read-resource answers, altogether
TOOL_NAME_CHARS = 64  # what every provider takes


@dataclass(frozen=True, slots=True)
class Patience:
    """Times that tests shorten."""

    first_wait_seconds: float = 10.0  # a prompt for servers that start for the first time
    auth_seconds: float = 300.0  # a person to let a server in
    call_seconds: float = 120.0  # a call, unless the server's own timeout is longer
    listing_seconds: float = 1.0  # between two readings of a list that keeps changing
    ping_seconds: float = 30.0  # between two questions whether a distant server is there
    probe_seconds: float = 3.0  # for a command to say which revision it speaks; then the handshake
    relisten_seconds: float = 1.0  # before a stream of changes is opened again; doubles
    leave_seconds: float = 0.5  # for a process to end by itself when its stdin closes
    last_words_seconds: float = 2.0  # for a process to end whose stdout has ended
    first_pause_seconds: float = 0.5  # before a crashed server is started again; doubles
    longest_pause_seconds: float = 60.0
    steady_seconds: float = 60.0  # who lives longer begins with the first pause again
    tries: int = 6  # failures one after another before a server is left alone
    again_seconds: float = 60.0  # after which a prompt tries one that was left alone
