"""The changes of a stateless server's lists: heard on a stream that we open, and open again.

A server of the handshake's era sends its notifications unasked; both kinds
reach the session's message handler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import anyio
import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.client.subscriptions import SubscriptionLost, listen
from pydantic import BaseModel

from agents.tools.mcp.contract import Change

CHANGES: Mapping[type[BaseModel], Change] = {
    types.ToolListChangedNotification: Change.TOOLS,
    types.PromptListChangedNotification: Change.PROMPTS,
    types.ResourceListChangedNotification: Change.RESOURCES,
}

_LONGEST_PAUSE_SECONDS = 60.0
_REFUSALS = frozenset({types.METHOD_NOT_FOUND, types.INVALID_PARAMS, types.INVALID_REQUEST})


def announced(can: types.ServerCapabilities) -> frozenset[Change]:
    """The lists whose changes the server promises to announce."""
    promises = {
        Change.TOOLS: can.tools and can.tools.list_changed,
        Change.PROMPTS: can.prompts and can.prompts.list_changed,
        Change.RESOURCES: can.resources and can.resources.list_changed,
    }
    return frozenset(change for change, is_promised in promises.items() if is_promised)


async def listen_for_changes(
    session: ClientSession,
    wanted: frozenset[Change],
    on_change: Callable[[Change], None],
    *,
    pause_seconds: float,
) -> None:
    """Until the connection ends, or the server refuses to be listened to."""
    pause, is_first = pause_seconds, True
    while True:
        try:
            async with listen(
                session,
                tools_list_changed=Change.TOOLS in wanted,
                prompts_list_changed=Change.PROMPTS in wanted,
                resources_list_changed=Change.RESOURCES in wanted,
            ) as events:
                if not is_first:
                    for change in wanted:  # nothing repeats what was missed meanwhile
                        on_change(change)
                is_first = False
                async for _ in events:
                    pause = pause_seconds  # the message handler is given each of them
        except SubscriptionLost:
            pass
        except MCPError as error:
            if error.code in _REFUSALS:
                return
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
