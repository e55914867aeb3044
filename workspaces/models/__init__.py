"""The rows of workspaces: what they contain, who keeps them open, and what has happened in them."""

from workspaces.models.processes import NEVER_EXPIRES, RegisteredProcess
from workspaces.models.sessions import (
    UNFINISHED_REWINDS,
    Attachment,
    FileRead,
    FileVersion,
    Message,
    RemovedMessage,
    Rewind,
    RewindState,
    SearchFill,
    SearchText,
    Session,
    StoredMessage,
)
from workspaces.models.workspaces import (
    ClientClaim,
    DailyJob,
    Event,
    IdempotencyKey,
    PermissionMode,
    RetiredClient,
    TrustRequest,
    TrustRequestState,
    Workspace,
)

__all__ = [
    "NEVER_EXPIRES",
    "UNFINISHED_REWINDS",
    "Attachment",
    "ClientClaim",
    "DailyJob",
    "Event",
    "FileRead",
    "FileVersion",
    "IdempotencyKey",
    "Message",
    "PermissionMode",
    "RegisteredProcess",
    "RemovedMessage",
    "RetiredClient",
    "Rewind",
    "RewindState",
    "SearchFill",
    "SearchText",
    "Session",
    "StoredMessage",
    "TrustRequest",
    "TrustRequestState",
    "Workspace",
]
