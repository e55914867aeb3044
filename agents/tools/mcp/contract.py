"""What the parts of MCP speak of: a server's state, what it offers, and what it rests on.

Pure. Knows neither the protocol's package nor a database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from agents.config.settings import McpSettings


class McpFailed(Exception):
    """The server could not do it; the sentence says why and holds no secret."""


class McpConnectionLost(McpFailed):
    """The server is gone, or was never there. It is started again by itself."""


class NotProcessed(McpConnectionLost):
    """The server did not know the session: nothing was done, asking again is safe."""


class NeedsLogin(McpFailed):
    """The server lets nobody in who has not logged in."""

    def __init__(self) -> None:
        super().__init__("The server asks for a login.")


class McpStatus(StrEnum):
    DISABLED = "disabled"
    STARTING = "starting"
    CONNECTED = "connected"
    ERROR = "error"
    NEEDS_AUTH = "needs auth"


class McpChange(StrEnum):
    STATE = "state_changed"
    TOOLS = "tools_list_changed"
    PROMPTS = "prompts_list_changed"
    RESOURCES = "resources_list_changed"


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process beyond its number, which the system gives away again."""

    pid: int = 0
    started: str = ""  # as ``recorded_start`` tells it


@dataclass(frozen=True, slots=True)
class McpServerView:
    """What clients are told of a server."""

    name: str
    state: McpStatus
    error: str = ""
    tool_count: int = 0
    prompt_count: int = 0
    resource_count: int = 0
    auth_url: str = ""
    connected_at: int | None = None  # milliseconds
    process: ProcessIdentity = ProcessIdentity()


@dataclass(frozen=True, slots=True)
class OfferedTool:
    name: str  # the server's own
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PromptArgument:
    name: str
    title: str = ""
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class OfferedPrompt:
    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class OfferedResource:
    uri: str
    name: str
    description: str = ""
    mime_type: str = ""


@dataclass(frozen=True, slots=True)
class ResourceContent:
    uri: str
    mime_type: str = ""
    text: str = ""
    blob: str = ""  # base64


@dataclass(frozen=True, slots=True)
class Offer:
    """Everything a server lists."""

    tools: tuple[OfferedTool, ...] = ()
    prompts: tuple[OfferedPrompt, ...] = ()
    resources: tuple[OfferedResource, ...] = ()


@dataclass(frozen=True, slots=True)
class McpWorkspace:
    """Where a workspace's servers run, and which."""

    path: str
    env: Mapping[str, str] = field(repr=False)
    servers: Mapping[str, McpSettings]
    disabled_tools: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Secret:
    text: str = field(repr=False)
    changed_at: int


class Backing(Protocol):
    """What is stored, and what the configuration says."""

    async def place(self, workspace_id: str) -> McpWorkspace:
        """As the files are now. Raises ``WorkspaceUnknown``."""
        ...

    async def record(self, workspace_id: str, view: McpServerView, change: McpChange) -> None:
        """Stores what clients are told, and tells them. Nothing in a closed workspace."""
        ...

    async def drop(self, workspace_id: str, names: frozenset[str] | None) -> None:
        """Forgets these servers of a workspace; all of them for ``None``."""
        ...

    async def settle(self, workspace_id: str) -> None:
        """Before the first server of a workspace: ends what died processes left of it."""
        ...

    async def load_secret(self, key: str) -> Secret | None: ...

    async def save_secret(self, key: str, text: str) -> int:
        """Returns the moment under which ``load_secret`` will give it."""
        ...


_AUTHORIZATION = "authorization"


def allowed(offer: Offer, settings: McpSettings) -> Offer:
    """Without the tools that the configuration switches off or does not choose."""
    chosen, off = settings.enabled_tools, settings.disabled_tools
    tools = tuple(
        tool for tool in offer.tools if tool.name not in off and (not chosen or tool.name in chosen)
    )
    return replace(offer, tools=tools)


def asks_login(settings: McpSettings) -> bool:
    """Whether a person could let us in: not where a key is configured, unless it is said."""
    if settings.kind == "stdio" or settings.is_disabled:
        return False
    has_key = any(name.lower() == _AUTHORIZATION for name in settings.headers)
    return settings.oauth if settings.oauth is not None else not has_key
