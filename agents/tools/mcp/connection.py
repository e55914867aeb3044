"""One live connection to a server: asking it, hearing it, and seeing it end.

It lives in the task that made it (``connecting``); asking may come from any.
Whoever asks is answered also when the connection breaks. The package takes a
request back at the server when nobody waits for it any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import anyio
import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.client import ClientRequestContext
from mcp.client._input_required import run_input_required_driver
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, TypeAdapter

from agents.tools.contract import ToolOutcome
from agents.tools.mcp import reading
from agents.tools.mcp.attempt import McpAttempt
from agents.tools.mcp.bounded_http import MORE_RIGHTS
from agents.tools.mcp.contract import (
    McpChange,
    McpConnectionLost,
    McpFailed,
    NotProcessed,
    Offer,
    ProcessIdentity,
    ResourceContent,
)
from agents.tools.mcp.listing import (
    CHANGES,
    announced,
    listen_for_changes,
    renewed_offer,
    whole_offer,
)

Result = TypeVar("Result", bound=BaseModel)
Send = Callable[
    [types.InputResponses | None, str | None], Awaitable[Result | types.InputRequiredResult]
]

CALLED: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)


async def answered(session: ClientSession, send: Send[Result]) -> Result:
    """The request's result, whatever the server asks before. Raises what the package raises."""
    first = await send(None, None)
    if not isinstance(first, types.InputRequiredResult):
        return first

    async def answer(
        key: str, question: types.InputRequest
    ) -> types.InputResponse | types.ErrorData:
        if isinstance(question, types.ElicitRequest):
            return types.ElicitResult(action="decline")
        context = ClientRequestContext(session=session, request_id=key)
        return await session.dispatch_input_request(context, question)

    return await run_input_required_driver(first, dispatch=answer, retry=send)


T = TypeVar("T")
_NO_ANSWER = "The server's answer does not follow the protocol."
_UNKNOWN_VERSION = "The server uses a version of the protocol that this server does not support."
_NOT_FOUND = 404
_SERVER_ERROR = 500


class McpConnection:
    def __init__(self, attempt: McpAttempt) -> None:
        self._attempt = attempt
        attempt.on_fault = self.end
        self._session: ClientSession | None = None
        self._side: set[asyncio.Task[Any]] = set()
        self._pending = 0  # questions without an answer
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._fault: Exception | None = None
        self.can = types.ServerCapabilities()
        self.stale: set[McpChange] = set()  # lists that the server says have changed
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

    async def why_over(self) -> McpConnectionLost:
        fault = self._attempt.fault or self._fault
        if isinstance(fault, McpFailed):
            return McpConnectionLost(str(fault))
        if self._attempt.child is not None:
            return McpConnectionLost(await self._attempt.child.last_words())
        if self._attempt.was_refused and self._pending <= 1:
            # Nobody else was in the middle of anything: it is this one that was refused.
            return NotProcessed("The server asks for a login.")
        return McpConnectionLost("The server closed the connection.")

    # -- asking: from any task

    async def call_tool(
        self, name: str, arguments: dict[str, Any], *, seconds: float, sees_images: bool
    ) -> ToolOutcome:
        """Raises ``McpFailed``. The server learns of a cancel."""

        async def call(session: ClientSession) -> types.CallToolResult:
            async def send(
                responses: types.InputResponses | None, state: str | None
            ) -> types.CallToolResult | types.InputRequiredResult:
                # Not the session's own method: that one checks results by schemas of the server,
                # which may be built to run for ever.
                params = types.CallToolRequestParams(
                    name=name, arguments=arguments, input_responses=responses, request_state=state
                )
                return await session.send_request(types.CallToolRequest(params=params), CALLED)

            return await answered(session, send)

        try:
            result = await self.ask(call, seconds=seconds)
        except StaleHeaders:
            # The server wants arguments in headers that its last list did not name.
            _ = await renewed_offer(self, Offer(), McpChange.TOOLS, seconds=seconds)
            self._mark(McpChange.TOOLS)
            result = await self.ask(call, seconds=seconds)
        return reading.outcome_of(result, sees_images=sees_images)

    async def get_prompt(self, name: str, arguments: dict[str, str], *, seconds: float) -> str:
        async def get(session: ClientSession) -> types.GetPromptResult:
            async def send(
                responses: types.InputResponses | None, state: str | None
            ) -> types.GetPromptResult | types.InputRequiredResult:
                return await session.get_prompt(
                    name,
                    arguments,
                    input_responses=responses,
                    request_state=state,
                    allow_input_required=True,
                )

            return await answered(session, send)

        return reading.prompt_text_of(await self.ask(get, seconds=seconds))

    async def read_resource(self, uri: str, *, seconds: float) -> tuple[ResourceContent, ...]:
        async def read(session: ClientSession) -> types.ReadResourceResult:
            async def send(
                responses: types.InputResponses | None, state: str | None
            ) -> types.ReadResourceResult | types.InputRequiredResult:
                return await session.read_resource(
                    uri, input_responses=responses, request_state=state, allow_input_required=True
                )

            return await answered(session, send)

        return reading.contents_of(await self.ask(read, seconds=seconds))

    async def offer(self, *, seconds: float) -> Offer:
        """Everything that the server lists."""
        return await whole_offer(self, seconds=seconds)

    async def renewed(self, offer: Offer, change: McpChange, *, seconds: float) -> Offer:
        """The offer with one of its lists read anew."""
        return await renewed_offer(self, offer, change, seconds=seconds)

    async def ping(self, *, seconds: float) -> None:
        """Any answer will do, also that the server does not know the question."""

        async def ping(session: ClientSession) -> types.EmptyResult | types.DiscoverResult:
            if session.protocol_version in MODERN_PROTOCOL_VERSIONS:  # they know no ping
                return await session.send_request(types.DiscoverRequest(), types.DiscoverResult)
            return await session.send_ping()

        try:
            await self.ask(ping, seconds=seconds)
        except McpConnectionLost:
            raise
        except TooSlow:
            raise McpConnectionLost("The server does not answer any more.") from None
        except McpFailed as failure:
            if self._attempt.status >= _SERVER_ERROR:
                raise McpConnectionLost(str(failure)) from None

    async def ask(self, question: Callable[[ClientSession], Awaitable[T]], *, seconds: float) -> T:
        session = self._session
        if session is None or self.is_over:
            raise await self.why_over()

        async def send() -> T:
            return await question(session)

        return await self._outcome(send(), seconds)

    async def _outcome(self, work: Coroutine[Any, Any, T], seconds: float | None) -> T:
        """Of what waits for the server, unless the connection or the time ends before."""
        asking = asyncio.create_task(work)
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
                # The package tells the server; nobody waits for that.
                self._side.add(asking)
                asking.add_done_callback(self._side.discard)
            asking.add_done_callback(_note)

    async def _answer(self, asking: asyncio.Task[T]) -> T:
        try:
            return asking.result()
        except MCPError as error:
            raise await self._failure(error.error) from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise await self.why_over() from None
        except (ValueError, RuntimeError, BaseExceptionGroup) as error:
            # What the package finds wrong with an answer; a group, where it asked several things.
            text = _UNKNOWN_VERSION if "protocol version" in str(error) else _NO_ANSWER
            raise McpFailed(text) from None

    async def _failure(self, error: types.ErrorData) -> McpFailed:
        login = self._attempt.login
        match error.code:
            case types.CONNECTION_CLOSED:
                return await self.why_over()
            case types.INVALID_REQUEST if self._attempt.lost_session:
                return NotProcessed("The server has forgotten the session.")
            case types.UNSUPPORTED_PROTOCOL_VERSION:
                return McpFailed(_UNKNOWN_VERSION)
            case types.HEADER_MISMATCH:
                return StaleHeaders(f"The server answered: {reading.plain(error.message)}")
            case code if code == MORE_RIGHTS and login is not None and login.refusal:
                return McpFailed("The server asks for more rights: log in to it again.")
        status = f" (status {self._attempt.status})" if self._attempt.status else ""
        return McpFailed(f"The server answered: {reading.plain(error.message)}{status}")

    # -- hearing: in the connection's own task

    def complete(self, message: object) -> None:
        """A stateless server may leave out that a result is one; the package insists on it."""
        session = self._session
        if session is None or session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        if isinstance(message, SessionMessage) and isinstance(
            message.message, types.JSONRPCResponse
        ):
            message.message.result.setdefault("resultType", "complete")

    async def hear(self, message: object) -> None:
        """Anything that the server says by itself. It must not wait: answers come this way too."""
        if isinstance(message, Exception):
            self._fault = message
        else:
            change = CHANGES.get(type(message))  # type: ignore[arg-type]  # any other is not there
            if change is not None:
                self._mark(change)

    def _mark(self, change: McpChange) -> None:
        self.stale.add(change)
        self.wake.set()

    async def begin(self, session: ClientSession, negotiation: Coroutine[Any, Any, None]) -> None:
        """Raises ``McpFailed``, and what the package raises."""
        try:
            await self._outcome(negotiation, None)
        except McpConnectionLost:
            raise
        except McpFailed:
            if self._attempt.status == _NOT_FOUND:
                raise McpFailed(
                    "The server answered with status 404: no MCP server is at this address."
                ) from None
            if self._attempt.status:
                raise McpConnectionLost(
                    f"The server answered with status {self._attempt.status}."
                ) from None
            raise
        self.can = session.server_capabilities or types.ServerCapabilities()
        self._session = session
        wanted = announced(self.can)
        if wanted and session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            listening = asyncio.create_task(
                listen_for_changes(
                    session,
                    wanted,
                    self._mark,
                    pause_seconds=self._attempt.patience.relisten_seconds,
                )
            )
            self._side.add(listening)
            listening.add_done_callback(self._side.discard)
            listening.add_done_callback(_note)

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


class StaleHeaders(McpFailed):
    """The server refused a call whose headers do not repeat the arguments that it names."""


def _note(task: asyncio.Task[Any]) -> None:
    """Its failure was shown already, or another answer was first."""
    if not task.cancelled():
        task.exception()
