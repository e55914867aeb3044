"""The types that the MCP modules share: a server's status, its offer and its storage.

Pure: independent of the protocol's package and of the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from agents.config.settings import McpSettings


class McpFailed(Exception):
    """A request to the server failed. The message gives the reason and contains no secret."""


class McpConnectionLost(McpFailed):
    """The connection has ended or could not be opened. The server restarts automatically."""


class NotProcessed(McpConnectionLost):
    """The server had no such session and did nothing, so a retry is safe."""


class NeedsLogin(McpFailed):
    """The server requires a login."""

    def __init__(self) -> None:
        super().__init__("The server requires a login.")


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
    """A process by its number and its start, because the system reuses numbers."""

    pid: int = 0
    started: str = ""  # as returned by ``recorded_start``


@dataclass(frozen=True, slots=True)
class McpServerView:
    """A server's status as clients receive it."""

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
    is_repeatable: bool = False  # its server declares that a second run changes nothing more


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
    """The tools, prompts and resources that a server lists."""

    tools: tuple[OfferedTool, ...] = ()
    prompts: tuple[OfferedPrompt, ...] = ()
    resources: tuple[OfferedResource, ...] = ()


@dataclass(frozen=True, slots=True)
class McpWorkspace:
    """The servers of a workspace, with their folder and environment."""

    path: str
    env: Mapping[str, str] = field(repr=False)
    servers: Mapping[str, McpSettings]
    disabled_tools: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Secret:
    text: str = field(repr=False)
    changed_at: int


class Backing(Protocol):
    """Access to the stored state and to the configuration."""

    async def workspace(self, workspace_id: str) -> McpWorkspace:
        """Reads the current configuration files. Raises ``WorkspaceUnknown``."""
        ...

    async def record(self, workspace_id: str, view: McpServerView, change: McpChange) -> None:
        """Stores a server's status and notifies clients. Does nothing in a closed workspace."""
        ...

    async def drop(self, workspace_id: str, names: frozenset[str] | None) -> None:
        """Deletes the status of these servers of a workspace; of all servers for ``None``."""
        ...

    async def settle(self, workspace_id: str) -> None:
        """Ends leftovers of dead processes, before the first server of a workspace starts."""
        ...

    async def load_secret(self, key: str) -> Secret | None: ...

    async def save_secret(self, key: str, text: str) -> int:
        """Stores a secret. Returns its ``changed_at``."""
        ...


_AUTHORIZATION = "authorization"


def allowed(offer: Offer, settings: McpSettings) -> Offer:
    """Returns the offer without the tools that the configuration disables or does not enable."""
    chosen, off = settings.enabled_tools, settings.disabled_tools
    tools = tuple(
        tool for tool in offer.tools if tool.name not in off and (not chosen or tool.name in chosen)
    )
    return replace(offer, tools=tools)


def may_require_login(settings: McpSettings) -> bool:
    """Returns whether the server may use a login.

    By default it may, unless the configuration contains an authorization header.
    """
    if settings.kind == "stdio" or settings.is_disabled:
        return False
    has_key = any(name.lower() == _AUTHORIZATION for name in settings.headers)
    return settings.oauth if settings.oauth is not None else not has_key
