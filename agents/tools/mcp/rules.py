"""What a server's settings say of its tools and of its login. Pure."""

from __future__ import annotations

from dataclasses import replace

from agents.config.settings import McpSettings
from agents.tools.mcp.contract import Offer

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
