"""Reading what a server lists: its tools, prompts and resources, page by page, within limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import mcp_types as types
from mcp import ClientSession

from agents.tools.mcp import limits, reading
from agents.tools.mcp.contract import Change, ConnectionLost, McpFailed, Offer

Answer = TypeVar("Answer")
Page = TypeVar("Page", types.ListToolsResult, types.ListPromptsResult, types.ListResourcesResult)
Item = TypeVar("Item")


class Asked(Protocol):
    """The connection that a list is read by."""

    can: types.ServerCapabilities

    async def ask(
        self, question: Callable[[ClientSession], Awaitable[Answer]], *, seconds: float
    ) -> Answer: ...


async def whole_offer(asked: Asked, *, seconds: float) -> Offer:
    """Everything that the server lists. Many promise prompts and know none."""
    offer = await renewed_offer(asked, Offer(), Change.TOOLS, seconds=seconds)
    for change in (Change.PROMPTS, Change.RESOURCES):
        try:
            offer = await renewed_offer(asked, offer, change, seconds=seconds)
        except ConnectionLost:
            raise
        except McpFailed:
            continue
    return offer


async def renewed_offer(asked: Asked, offer: Offer, change: Change, *, seconds: float) -> Offer:
    """The offer with one of its lists read anew. Raises ``McpFailed``."""
    match change:
        case Change.TOOLS:
            tools = await _tools(asked, seconds) if asked.can.tools else []
            return Offer(reading.tools_of(tools), offer.prompts, offer.resources)
        case Change.PROMPTS:
            prompts = await _prompts(asked, seconds) if asked.can.prompts else []
            return Offer(offer.tools, reading.prompts_of(prompts), offer.resources)
        case Change.RESOURCES:
            resources = await _resources(asked, seconds) if asked.can.resources else []
            return Offer(offer.tools, offer.prompts, reading.resources_of(resources))
        case Change.STATE:
            return offer


async def _tools(asked: Asked, seconds: float) -> list[types.Tool]:
    # The session's own method: it keeps which arguments go into headers too.
    return await _pages(
        asked,
        lambda session, params: session.list_tools(params=params),
        lambda page: page.tools,
        limits.MAX_TOOLS,
        seconds,
    )


async def _prompts(asked: Asked, seconds: float) -> list[types.Prompt]:
    return await _pages(
        asked,
        lambda session, params: session.list_prompts(params=params),
        lambda page: page.prompts,
        limits.MAX_PROMPTS,
        seconds,
    )


async def _resources(asked: Asked, seconds: float) -> list[types.Resource]:
    return await _pages(
        asked,
        lambda session, params: session.list_resources(params=params),
        lambda page: page.resources,
        limits.MAX_RESOURCES,
        seconds,
    )


async def _pages(
    asked: Asked,
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
