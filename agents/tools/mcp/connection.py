"""One live connection to a server: asking it, hearing it, and seeing it end.

It lives in the task that made it (``connecting``); asking may come from any.
Whoever asks is answered also when the connection breaks, and a question that
nobody waits for any more is taken back at the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import anyio
from mcp import ClientSession, types
from mcp.shared.exceptions import McpError
from pydantic import AnyUrl, BaseModel, ValidationError

from agents.tools.contract import ToolOutcome
from agents.tools.mcp import reading
from agents.tools.mcp.attempt import Attempt
from agents.tools.mcp.contract import (
    Change,
    ConnectionLost,
    McpFailed,
    NotProcessed,
    Offer,
    ProcessIdentity,
    ResourceContent,
)
from agents.tools.mcp.listing import Answer, renewed_offer, whole_offer

_SESSION_GONE = 32600  # the package's own code for a 404
_TAKE_BACK_SECONDS = 2.0


class Connection:
    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._session: ClientSession | None = None
        self._side: set[asyncio.Task[None]] = set()
        self._pending = 0  # questions without an answer
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._fault: Exception | None = None
        self.can = types.ServerCapabilities()
        self.stale: set[Change] = set()  # lists that the server says have changed
        self.wake = asyncio.Event()

    @property
    def process(self) -> ProcessIdentity:
        child = self._attempt.child
        return child.identity if child is not None else ProcessIdentity()

    @property
    def is_over(self) -> bool:
        return self._ended.done()

    async def over(self, seconds: float) -> bool:
        """Whether it ends within this time."""
        await asyncio.wait({self._ended}, timeout=seconds)
        return self.is_over

    async def why_over(self) -> ConnectionLost:
        if self._attempt.child is not None:
            return ConnectionLost(await self._attempt.child.last_words())
        if self._attempt.was_refused and self._pending <= 1:
            # Nobody else was in the middle of anything: it is this one that was refused.
            return NotProcessed("The server asks for a login.")
        if isinstance(self._fault, McpFailed):
            return ConnectionLost(str(self._fault))
        return ConnectionLost("The server closed the connection.")

    # -- asking: from any task

    async def call_tool(
        self, name: str, arguments: dict[str, Any], *, seconds: float, sees_images: bool
    ) -> ToolOutcome:
        """Raises ``McpFailed``. A cancel is told to the server."""
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        request = types.ClientRequest(types.CallToolRequest(params=params))
        result = await self.ask(request, types.CallToolResult, seconds=seconds)
        return reading.outcome_of(result, sees_images=sees_images)

    async def get_prompt(self, name: str, arguments: dict[str, str], *, seconds: float) -> str:
        params = types.GetPromptRequestParams(name=name, arguments=arguments)
        request = types.ClientRequest(types.GetPromptRequest(params=params))
        return reading.prompt_text_of(
            await self.ask(request, types.GetPromptResult, seconds=seconds)
        )

    async def read_resource(self, uri: str, *, seconds: float) -> tuple[ResourceContent, ...]:
        try:
            params = types.ReadResourceRequestParams(uri=AnyUrl(uri))
        except ValidationError:
            raise McpFailed("The uri is not one.") from None
        request = types.ClientRequest(types.ReadResourceRequest(params=params))
        return reading.contents_of(
            await self.ask(request, types.ReadResourceResult, seconds=seconds)
        )

    async def offer(self, *, seconds: float) -> Offer:
        """Everything that the server lists."""
        return await whole_offer(self, seconds=seconds)

    async def renewed(self, offer: Offer, change: Change, *, seconds: float) -> Offer:
        """The offer with one of its lists read anew."""
        return await renewed_offer(self, offer, change, seconds=seconds)

    async def ping(self, *, seconds: float) -> None:
        """Any answer will do, also that the server does not know the question."""
        try:
            await self.ask(
                types.ClientRequest(types.PingRequest()), types.EmptyResult, seconds=seconds
            )
        except ConnectionLost:
            raise
        except TooSlow:
            raise ConnectionLost("The server does not answer any more.") from None
        except McpFailed:
            return

    async def ask(
        self, request: types.ClientRequest, answer_type: type[Answer], *, seconds: float
    ) -> Answer:
        session, numbers = self._session, list[int]()
        if session is None or self.is_over:
            raise await self.why_over()

        async def send() -> Answer:
            # The number that the package gives this request, to take it back by.
            numbers.append(session._request_id)
            return await session.send_request(request, answer_type)

        asking = asyncio.create_task(send())
        self._pending += 1
        try:
            waited: set[asyncio.Future[Any]] = {asking, self._ended}
            await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return await self._answer(asking)
            if self.is_over:
                raise await self.why_over()
            raise TooSlow(f"The server did not answer within {seconds:g} seconds.")
        finally:
            self._pending -= 1
            if not asking.done():
                asking.cancel()
                self._take_back(numbers)
                await asyncio.wait({asking})
            if not asking.cancelled():
                asking.exception()  # taken note of, also where another answer was first

    async def _answer(self, asking: asyncio.Task[Answer]) -> Answer:
        try:
            return asking.result()
        except McpError as error:
            if error.error.code == types.CONNECTION_CLOSED:
                raise await self.why_over() from None
            if error.error.code == _SESSION_GONE:
                raise NotProcessed("The server has forgotten the session.") from None
            raise McpFailed(f"The server answered: {reading.plain(error.error.message)}") from None
        except ValidationError:
            raise McpFailed("The server's answer does not follow the protocol.") from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise await self.why_over() from None

    def _take_back(self, numbers: list[int]) -> None:
        session = self._session
        if session is None or not numbers or self.is_over:
            return
        params = types.CancelledNotificationParams(requestId=numbers[0], reason="cancelled")
        word = types.ClientNotification(types.CancelledNotification(params=params))

        async def tell() -> None:
            with suppress(TimeoutError, anyio.ClosedResourceError, anyio.BrokenResourceError):
                async with asyncio.timeout(_TAKE_BACK_SECONDS):
                    await session.send_notification(word)

        task = asyncio.create_task(tell())
        self._side.add(task)
        task.add_done_callback(self._side.discard)

    # -- hearing: in the connection's own task

    async def hear(self, message: object) -> None:
        """Anything that the server says by itself. It must not wait: answers come this way too."""
        if isinstance(message, Exception):
            self._fault = message
        elif isinstance(message, types.ServerNotification):
            change = _CHANGES.get(type(message.root))
            if change is not None:
                self.stale.add(change)
                self.wake.set()

    async def begin(self, session: ClientSession) -> None:
        """Shakes hands. Raises ``McpFailed``."""
        try:
            self.can = (await session.initialize()).capabilities
        except McpError as error:
            if error.error.code == types.CONNECTION_CLOSED:
                raise await self.why_over() from None
            if error.error.code == _SESSION_GONE:
                raise McpFailed(
                    "The server answered with status 404: no MCP server is at this address."
                ) from None
            raise
        self._session = session

    def end(self) -> None:
        """Nobody answers any more; whoever waits is told."""
        self._session = None
        if not self._ended.done():
            self._ended.set_result(None)
        self.wake.set()

    async def drop(self) -> None:
        self.end()
        for task in list(self._side):
            task.cancel()
        if self._side:
            await asyncio.wait(self._side)


class TooSlow(McpFailed):
    """No answer in time."""


_CHANGES: Mapping[type[BaseModel], Change] = {
    types.ToolListChangedNotification: Change.TOOLS,
    types.PromptListChangedNotification: Change.PROMPTS,
    types.ResourceListChangedNotification: Change.RESOURCES,
}
