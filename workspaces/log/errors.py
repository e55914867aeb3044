"""The errors that clients get, each with a code and a sentence.

``crushsite.asgi.routing`` turns them into responses in one place. A ``Refusal`` is for the client to
correct and is never logged above ``info``.
"""

from __future__ import annotations

from typing_extensions import override


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
        """The headers of the HTTP response."""
        if self.retry_after_seconds is None:
            return []
        return [(b"retry-after", b"%d" % self.retry_after_seconds)]


class Overtaken(Exception):
    """The state changed after a write was requested: it wrote nothing, which is no fault."""


class BadField(Refusal):
    """A field of the request is missing or wrong."""

    code = "bad_field"


class Unauthenticated(Refusal):
    """This request needs a token or a session, or must come from the user that runs the server."""

    code = "unauthenticated"
    status = 401

    @property
    @override
    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"www-authenticate", b'Bearer realm="crush"')]


class TooManyAttempts(Refusal):
    """Too many wrong tokens or links came from this address."""

    code = "too_many_attempts"
    status = 429

    def __init__(self, sentence: str = "", *, seconds: int = 1) -> None:
        self.retry_after_seconds = seconds
        super().__init__(sentence or f"{self.__doc__} Try again in {seconds} seconds.")


class Forbidden(Refusal):
    """You have no right to do this here. An administrator of the workspace can give you a role that has it."""

    code = "forbidden"
    status = 403


class ForbiddenToTools(Refusal):
    """A tool of this server may read and send prompts only. A person must do this."""

    code = "forbidden_to_tools"
    status = 403


class KeyTaken(Refusal):
    """Another request was sent with this Idempotency-Key. Choose a new key for each request."""

    code = "idempotency_key_taken"
    status = 422


class KeyInUse(Refusal):
    """The first request with this Idempotency-Key is still being carried out. Try again later."""

    code = "idempotency_key_in_use"
    status = 409
    retry_after_seconds = 1


class WorkspaceUnknown(Refusal):
    """workspace not found"""

    code = "workspace_unknown"
    status = 404


class SessionUnknown(Refusal):
    """session not found"""

    code = "session_unknown"
    status = 404


class SessionBusy(Refusal):
    """The session, or a child session of it, has work that has not ended. Cancel it first, or wait."""

    code = "session_busy"
    status = 409


class MessageUnknown(Refusal):
    """message not found"""

    code = "message_unknown"
    status = 404


class RewindUnknown(Refusal):
    """rewind not found"""

    code = "rewind_unknown"
    status = 404


class RewindUnfinished(Refusal):
    """A rewind of this session is restoring files. Try again in a moment."""

    code = "rewind_unfinished"
    status = 409
    retry_after_seconds = 1


class RewindOutdated(Refusal):
    """This rewind cannot be undone: it was undone already, or the session has gone on since."""

    code = "rewind_outdated"
    status = 409


class LanguageServerUnknown(Refusal):
    """language server not found"""

    code = "language_server_unknown"
    status = 404


class SkillUnknown(Refusal):
    """skill not found"""

    code = "skill_unknown"
    status = 404


class ApprovalUnknown(Refusal):
    """permission request not found"""

    code = "approval_unknown"
    status = 404


class QuestionUnknown(Refusal):
    """questions not found"""

    code = "question_unknown"
    status = 404


class NoRepository(Refusal):
    """The workspace is in no git repository that has a commit and belongs to the server's user."""

    code = "no_repository"
    status = 409


class GrantUnknown(Refusal):
    """grant not found"""

    code = "grant_unknown"
    status = 404


class ModelKindUnknown(Refusal):
    """A chosen model is either `large` or `small`."""

    code = "model_kind_unknown"
    status = 404


class JobUnknown(Refusal):
    """job not found"""

    code = "job_unknown"
    status = 404


class StreamItemUnknown(Refusal):
    """Native streams have no items of this type. `/api/schema/events` describes all of them."""

    code = "stream_item_unknown"
    status = 404


class TokenUnknown(Refusal):
    """There is no such token. List them with `crush-server token list`."""

    code = "token_unknown"
    status = 404


class UserUnknown(Refusal):
    """There is no such user here."""

    code = "user_unknown"
    status = 404


class UserTaken(Refusal):
    """There is a user with this name already."""

    code = "user_taken"
    status = 409


class OwnerNeeded(Refusal):
    """The owner of the server stays active, and staff."""

    code = "owner_needed"
    status = 409


class GroupRoleUnknown(Refusal):
    """This group has no such role."""

    code = "group_role_unknown"
    status = 404


class LoginLinkInvalid(Refusal):
    """This link was used already, or it has expired. Print a new one with `crush-server login-link`."""

    code = "login_link_invalid"
    status = 410


class BrowserSessionUnknown(Refusal):
    """This browser has signed out already."""

    code = "browser_session_unknown"
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


class RunUnknown(Refusal):
    """There is no such run in this workspace."""

    code = "run_unknown"
    status = 404


class RunNotQueued(Refusal):
    """The prompt no longer waits in the queue."""

    code = "run_not_queued"
    status = 409


class RunNotRepeatable(Refusal):
    """Only a prompt whose run failed, was interrupted or cancelled, or went over its budget can be retried."""

    code = "run_not_repeatable"
    status = 409


class QueueChanged(Refusal):
    """The queue has changed: one of these prompts does not wait there. Read the queue again."""

    code = "queue_changed"
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


class McpServerFailed(Refusal):
    """The MCP server is not connected, or it refused the request."""

    code = "mcp_server_failed"
    status = 409


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


class CursorExpired(Refusal):
    """after: is older than the events that this workspace keeps; get a new snapshot"""

    code = "cursor_expired"
    status = 409


class StillInUse(Refusal):
    """server is hosting live workspaces"""

    code = "still_in_use"
    status = 409
