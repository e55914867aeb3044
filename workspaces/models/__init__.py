"""The facts: where, who, what was said, what happened."""

from workspaces.models.attachment import Attachment
from workspaces.models.claim import ClientClaim, RetiredClient
from workspaces.models.event import Event
from workspaces.models.file import FileRead, FileVersion
from workspaces.models.message import Message
from workspaces.models.session import Session
from workspaces.models.trust import TrustRequest, TrustRequestState
from workspaces.models.workspace import Workspace

__all__ = [
    "Attachment",
    "ClientClaim",
    "Event",
    "FileRead",
    "FileVersion",
    "Message",
    "RetiredClient",
    "Session",
    "TrustRequest",
    "TrustRequestState",
    "Workspace",
]
