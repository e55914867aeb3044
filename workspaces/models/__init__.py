"""The rows of workspaces: what they contain, who keeps them open, and what has happened in them."""

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
    Event,
    IdempotencyKey,
    PermissionMode,
    RetiredClient,
    TrustRequest,
    TrustRequestState,
    Workspace,
)

__all__ = [
    "UNFINISHED_REWINDS",
    "Attachment",
    "ClientClaim",
    "Event",
    "FileRead",
    "FileVersion",
    "IdempotencyKey",
    "Message",
    "PermissionMode",
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
