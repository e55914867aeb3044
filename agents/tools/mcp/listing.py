"""Reading what a server lists: its tools, prompts and resources, page by page, within limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

import anyio
import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.client.subscriptions import SubscriptionLost, listen
from pydantic import BaseModel

from agents.tools.mcp import limits, reading
from agents.tools.mcp.contract import McpChange, McpConnectionLost, McpFailed, Offer

Answer = TypeVar("Answer")
Page = TypeVar("Page", types.ListToolsResult, types.ListPromptsResult, types.ListResourcesResult)
Item = TypeVar("Item")


class ListRequest(Protocol):
    """The connection that a list is read by."""

    can: types.ServerCapabilities

    async def ask(
        self, question: Callable[[ClientSession], Awaitable[Answer]], *, seconds: float
    ) -> Answer: ...


async def whole_offer(asked: ListRequest, *, seconds: float) -> Offer:
    """Everything that the server lists. Many promise prompts and know none."""
    offer = await renewed_offer(asked, Offer(), McpChange.TOOLS, seconds=seconds)
    for change in (McpChange.PROMPTS, McpChange.RESOURCES):
        try:
            offer = await renewed_offer(asked, offer, change, seconds=seconds)
        except McpConnectionLost:
            raise
        except McpFailed:
            continue
    return offer


async def renewed_offer(
    asked: ListRequest, offer: Offer, change: McpChange, *, seconds: float
) -> Offer:
    """The offer with one of its lists read anew. Raises ``McpFailed``."""
    match change:
        case McpChange.TOOLS:
            tools = await _tools(asked, seconds) if asked.can.tools else []
            return Offer(reading.tools_of(tools), offer.prompts, offer.resources)
        case McpChange.PROMPTS:
            prompts = await _prompts(asked, seconds) if asked.can.prompts else []
            return Offer(offer.tools, reading.prompts_of(prompts), offer.resources)
        case McpChange.RESOURCES:
            resources = await _resources(asked, seconds) if asked.can.resources else []
            return Offer(offer.tools, offer.prompts, reading.resources_of(resources))
        case McpChange.STATE:
            return offer


async def _tools(asked: ListRequest, seconds: float) -> list[types.Tool]:
    # The session's own method: it keeps which arguments go into headers too.
    return await _pages(
        asked,
        lambda session, params: session.list_tools(params=params),
        lambda page: page.tools,
        limits.MAX_TOOLS,
        seconds,
    )


async def _prompts(asked: ListRequest, seconds: float) -> list[types.Prompt]:
    return await _pages(
        asked,
        lambda session, params: session.list_prompts(params=params),
        lambda page: page.prompts,
        limits.MAX_PROMPTS,
        seconds,
    )


async def _resources(asked: ListRequest, seconds: float) -> list[types.Resource]:
    return await _pages(
        asked,
        lambda session, params: session.list_resources(params=params),
        lambda page: page.resources,
        limits.MAX_RESOURCES,
        seconds,
    )


async def _pages(
    asked: ListRequest,
    read: Callable[[ClientSession, types.PaginatedRequestParams | None], Awaitable[Page]],
    items_of: Callable[[Page], list[Item]],
    most: int,
    seconds: float,
) -> list[Item]:
    found: list[Item] = []
    params: types.PaginatedRequestParams | None = None

    async def next_page(session: ClientSession) -> Page:
        return await read(session, params)

    for _ in range(limits.MAX_PAGES):
        page = await asked.ask(next_page, seconds=seconds)
        found += items_of(page)
        if not page.next_cursor or len(found) >= most:
            break
        params = types.PaginatedRequestParams(cursor=page.next_cursor)
    return found[:most]


CHANGES: Mapping[type[BaseModel], McpChange] = {
    types.ToolListChangedNotification: McpChange.TOOLS,
    types.PromptListChangedNotification: McpChange.PROMPTS,
    types.ResourceListChangedNotification: McpChange.RESOURCES,
}

_LONGEST_PAUSE_SECONDS = 60.0
_REFUSALS = frozenset({types.METHOD_NOT_FOUND, types.INVALID_PARAMS, types.INVALID_REQUEST})


def announced(can: types.ServerCapabilities) -> frozenset[McpChange]:
    """The lists whose changes the server promises to announce."""
    promises = {
        McpChange.TOOLS: can.tools and can.tools.list_changed,
        McpChange.PROMPTS: can.prompts and can.prompts.list_changed,
        McpChange.RESOURCES: can.resources and can.resources.list_changed,
    }
    return frozenset(change for change, is_promised in promises.items() if is_promised)


async def listen_for_changes(
    session: ClientSession,
    wanted: frozenset[McpChange],
    on_change: Callable[[McpChange], None],
    *,
    pause_seconds: float,
) -> None:
    """Until the connection ends, or the server refuses to be listened to."""
    pause, is_first = pause_seconds, True
    while True:
        try:
            async with listen(
                session,
                tools_list_changed=McpChange.TOOLS in wanted,
                prompts_list_changed=McpChange.PROMPTS in wanted,
                resources_list_changed=McpChange.RESOURCES in wanted,
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
