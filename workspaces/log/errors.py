"""The errors that clients get, each with a code and a sentence.

``crushsite.asgi.errors`` turns them into responses in one place. A ``Refusal`` is for the client to
correct and is never logged above ``info``.
"""

from __future__ import annotations


class Refusal(Exception):
    """The request cannot be carried out."""

    code = "refused"
    status = 400
    retry_after_seconds: int | None = None  # when the same request may succeed

    def __init__(self, sentence: str = "") -> None:
        self.sentence = sentence or (self.__doc__ or "").strip()
        super().__init__(self.sentence)

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Of the HTTP response."""
        if self.retry_after_seconds is None:
            return []
        return [(b"retry-after", b"%d" % self.retry_after_seconds)]


class Overtaken(Exception):
    """Things have changed since a write was asked for: it wrote nothing, and nothing is broken."""


class BadField(Refusal):
    """A field of the request is missing or wrong."""

    code = "bad_field"


class WorkspaceUnknown(Refusal):
    """workspace not found"""

    code = "workspace_unknown"
    status = 404


class SessionUnknown(Refusal):
    """session not found"""

    code = "session_unknown"
    status = 404


class LanguageServerUnknown(Refusal):
    """language server not found"""

    code = "language_server_unknown"
    status = 404


class SkillUnknown(Refusal):
    """skill not found"""

    code = "skill_unknown"
    status = 404


class ClientRetired(Refusal):
    """client retired"""

    code = "client_retired"
    status = 409


class ClientNotAttached(Refusal):
    """client not attached"""

    code = "client_not_attached"
    status = 409


class RunIdTaken(Refusal):
    """run_id: was already used for another prompt"""

    code = "run_id_taken"
    status = 409


class QueueFull(Refusal):
    """the session's queue is full"""

    code = "queue_full"
    status = 429


class CommandsRunning(Refusal):
    """too many commands are running in this workspace"""

    code = "commands_running"
    status = 409


class McpServerUnknown(Refusal):
    """mcp server not found"""

    code = "mcp_server_unknown"
    status = 404


class McpUnavailable(Refusal):
    """mcp server is not available"""

    code = "mcp_unavailable"
    status = 502


class ShuttingDown(Refusal):
    """server is shutting down"""

    code = "shutting_down"
    status = 503


class DatabaseUnreachable(Refusal):
    """The database cannot be reached, so nothing was read or stored. Try again in a moment."""

    code = "database_unreachable"
    status = 503
    retry_after_seconds = 2


class DatabaseLocked(Refusal):
    """Another process holds the rows that this needs, so nothing was stored. Try again in a moment."""

    code = "database_locked"
    status = 503
    retry_after_seconds = 2


class OutcomeUnknown(Refusal):
    """The connection to the database was lost while this was stored. Look whether it was before trying again."""

    code = "outcome_unknown"
    status = 503
    retry_after_seconds = 5


class StorageFull(Refusal):
    """No space is left on the disk of the database, so nothing was stored. Free some space and try again."""

    code = "storage_full"
    status = 507


class CursorAhead(Refusal):
    """after: is larger than the newest event of this workspace"""

    code = "cursor_ahead"
    status = 409


class StillInUse(Refusal):
    """server is hosting live workspaces"""

    code = "still_in_use"
    status = 409
