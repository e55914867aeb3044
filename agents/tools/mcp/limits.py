"""The sizes and times that MCP servers are limited to.

A server is not trusted: all of its output is bounded before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_MESSAGE_BYTES = 16 * 1024 * 1024  # one message of a server
MAX_STDERR_BYTES = 8_192  # the end of a server's stderr
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
MAX_RESOURCE_BYTES = 8 * 1024 * 1024  # all contents of one response
TOOL_NAME_CHARS = 64  # every provider accepts this length


@dataclass(frozen=True, slots=True)
class McpTimeouts:
    """The times, which tests shorten."""

    first_wait_seconds: float = 10.0  # a prompt waits for the first start of servers
    login_seconds: float = 300.0  # for a person to log in
    call_seconds: float = 120.0  # for a call, unless the server's own timeout is longer
    listing_seconds: float = 1.0  # between two reads of a list that keeps changing
    ping_seconds: float = 30.0  # between two pings of a remote server
    probe_seconds: float = 3.0  # for a command to report its revision; then the handshake
    relisten_seconds: float = 1.0  # before a subscription is opened again; doubles
    exit_seconds: float = 0.5  # for a process to end by itself when its stdin closes
    stderr_seconds: float = 2.0  # for a process to exit after the end of its stdout
    first_pause_seconds: float = 0.5  # before a crashed server is restarted; doubles
    longest_pause_seconds: float = 60.0
    stable_seconds: float = 60.0  # a longer connection resets the pause
    most_failures: int = 6  # consecutive failures before a server stays stopped
    retry_seconds: float = 60.0  # after this time a prompt retries a stopped server
