"""Lists a server's tools, prompts and resources page by page, within limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

import anyio
import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.client.subscriptions import SubscriptionLost, listen
from pydantic import BaseModel

from agents.tools.mcp import limits
from agents.tools.mcp.contract import McpChange, McpConnectionLost, McpFailed, Offer
from agents.tools.mcp.protocol import results
from workspaces.backoff import pause_after

Answer = TypeVar("Answer")
Page = TypeVar("Page", types.ListToolsResult, types.ListPromptsResult, types.ListResourcesResult)
Item = TypeVar("Item")
CHANGES: Mapping[type[BaseModel], McpChange] = {
    types.ToolListChangedNotification: McpChange.TOOLS,
    types.PromptListChangedNotification: McpChange.PROMPTS,
    types.ResourceListChangedNotification: McpChange.RESOURCES,
}
_LONGEST_PAUSE_SECONDS = 60.0
_REFUSALS = frozenset({types.METHOD_NOT_FOUND, types.INVALID_PARAMS, types.INVALID_REQUEST})


class ListConnection(Protocol):
    """The connection that sends the list requests."""

    capabilities: types.ServerCapabilities

    async def request(
        self, send_with: Callable[[ClientSession], Awaitable[Answer]], *, seconds: float
    ) -> Answer: ...


async def whole_offer(connection: ListConnection, *, seconds: float) -> Offer:
    """Returns all lists of the server. Raises ``McpFailed`` only for tools.

    Many servers declare prompts and then fail to list them. A lost connection is always
    raised.
    """
    offer = await reread_offer(connection, Offer(), McpChange.TOOLS, seconds=seconds)
    for change in (McpChange.PROMPTS, McpChange.RESOURCES):
        try:
            offer = await reread_offer(connection, offer, change, seconds=seconds)
        except McpConnectionLost:
            raise
        except McpFailed:
            continue
    return offer


async def reread_offer(
    connection: ListConnection, offer: Offer, change: McpChange, *, seconds: float
) -> Offer:
    """Returns the offer with one list read again. Raises ``McpFailed``."""
    match change:
        case McpChange.TOOLS:
            tools = await _tools(connection, seconds) if connection.capabilities.tools else []
            return Offer(results.tools_of(tools), offer.prompts, offer.resources)
        case McpChange.PROMPTS:
            prompts = await _prompts(connection, seconds) if connection.capabilities.prompts else []
            return Offer(offer.tools, results.prompts_of(prompts), offer.resources)
        case McpChange.RESOURCES:
            resources = (
                await _resources(connection, seconds) if connection.capabilities.resources else []
            )
            return Offer(offer.tools, offer.prompts, results.resources_of(resources))
        case McpChange.STATE:
            return offer


async def _tools(connection: ListConnection, seconds: float) -> list[types.Tool]:
    # The session's own method also stores which arguments go into headers.
    return await _pages(
        connection,
        lambda session, params: session.list_tools(params=params),
        lambda page: page.tools,
        limits.MAX_TOOLS,
        seconds,
    )


async def _prompts(connection: ListConnection, seconds: float) -> list[types.Prompt]:
    return await _pages(
        connection,
        lambda session, params: session.list_prompts(params=params),
        lambda page: page.prompts,
        limits.MAX_PROMPTS,
        seconds,
    )


async def _resources(connection: ListConnection, seconds: float) -> list[types.Resource]:
    return await _pages(
        connection,
        lambda session, params: session.list_resources(params=params),
        lambda page: page.resources,
        limits.MAX_RESOURCES,
        seconds,
    )


async def _pages(
    connection: ListConnection,
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
        page = await connection.request(next_page, seconds=seconds)
        found += items_of(page)
        if not page.next_cursor or len(found) >= most:
            break
        params = types.PaginatedRequestParams(cursor=page.next_cursor)
    return found[:most]


def announced(capabilities: types.ServerCapabilities) -> frozenset[McpChange]:
    """Returns the lists for which the server declares change notifications."""
    promises = {
        McpChange.TOOLS: capabilities.tools and capabilities.tools.list_changed,
        McpChange.PROMPTS: capabilities.prompts and capabilities.prompts.list_changed,
        McpChange.RESOURCES: capabilities.resources and capabilities.resources.list_changed,
    }
    return frozenset(change for change, is_offered in promises.items() if is_offered)


async def listen_for_changes(
    session: ClientSession,
    wanted: frozenset[McpChange],
    on_change: Callable[[McpChange], None],
    *,
    pause_seconds: float,
) -> None:
    """Reports list changes until the connection ends or the server refuses subscriptions."""
    failures, is_first = 0, True
    while True:
        try:
            async with listen(
                session,
                tools_list_changed=McpChange.TOOLS in wanted,
                prompts_list_changed=McpChange.PROMPTS in wanted,
                resources_list_changed=McpChange.RESOURCES in wanted,
            ) as events:
                if not is_first:
                    for change in wanted:  # the server does not repeat missed notifications
                        on_change(change)
                is_first = False
                async for _ in events:
                    failures = 0  # the message handler receives the events themselves
        except SubscriptionLost:
            pass
        except MCPError as error:
            if error.code in _REFUSALS:
                return
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return
        failures += 1
        await asyncio.sleep(
            pause_after(failures, first_seconds=pause_seconds, limit_seconds=_LONGEST_PAUSE_SECONDS)
        )
