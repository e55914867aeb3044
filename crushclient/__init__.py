"""A typed asynchronous client of the Crush server. The README shows its use."""

from crushclient.addresses import TlsOptions, data_folder, local_address
from crushclient.client import Client, OpenWorkspace
from crushclient.errors import (
    ApiError,
    AuthenticationError,
    CommandUnconfirmed,
    ConflictError,
    ConnectionFailed,
    CrushError,
    InvalidRequestError,
    NotAllowedError,
    NotFoundError,
    ServerFailure,
    StreamClosed,
    TooManyRequestsError,
    UnsafeAddress,
)
from crushclient.folded_session import FoldedSession
from crushclient.items import (
    LogEvent,
    MessageState,
    NewText,
    OtherItem,
    OutputSoFar,
    StateReplaced,
    StreamItem,
    StreamLive,
    StreamLost,
)
from crushclient.retries import RetryPolicy
from crushclient.session_state import FoldedMessage, SessionState
from crushclient.stream import EventStream
from crushclient.transport import Reply, Timeouts

__all__ = [
    "ApiError",
    "AuthenticationError",
    "Client",
    "CommandUnconfirmed",
    "ConflictError",
    "ConnectionFailed",
    "CrushError",
    "EventStream",
    "FoldedMessage",
    "FoldedSession",
    "InvalidRequestError",
    "LogEvent",
    "MessageState",
    "NewText",
    "NotAllowedError",
    "NotFoundError",
    "OpenWorkspace",
    "OtherItem",
    "OutputSoFar",
    "Reply",
    "RetryPolicy",
    "ServerFailure",
    "SessionState",
    "StateReplaced",
    "StreamClosed",
    "StreamItem",
    "StreamLive",
    "StreamLost",
    "Timeouts",
    "TlsOptions",
    "TooManyRequestsError",
    "UnsafeAddress",
    "data_folder",
    "local_address",
]
