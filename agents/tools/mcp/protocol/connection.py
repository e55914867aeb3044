"""One live connection to a server: its requests, its notifications and its end.

The connection lives in the task that opened it (``connecting``); any task may send
requests. When the connection breaks, every pending request fails. The package
cancels a request at the server when its caller stops waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, cast

import anyio
import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.client import ClientRequestContext
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, TypeAdapter

from agents.tools.contract import ToolOutcome
from agents.tools.mcp.contract import (
    McpChange,
    McpConnectionLost,
    McpFailed,
    NotProcessed,
    Offer,
    ProcessIdentity,
    ResourceContent,
)
from agents.tools.mcp.protocol import results
from agents.tools.mcp.protocol.attempt import McpAttempt
from agents.tools.mcp.protocol.bounded_http import MORE_RIGHTS
from agents.tools.mcp.protocol.lists import (
    CHANGES,
    announced,
    listen_for_changes,
    reread_offer,
)

Result = TypeVar("Result", bound=BaseModel)
Send = Callable[
    [types.InputResponses | None, str | None], Awaitable[Result | types.InputRequiredResult]
]

CALLED: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)


async def with_inputs(session: ClientSession, send: Send[Result]) -> Result:
    """Returns the request's result, after answering the server's requests for input.

    Elicitations are declined. Raises what the package raises.
    """
    responses: types.InputResponses | None = None
    state: str | None = None
    for _ in range(_MAX_ROUNDS):
        result = await send(responses, state)
        if not isinstance(result, types.InputRequiredResult):
            return result
        if not result.input_requests:
            await asyncio.sleep(_ROUND_SECONDS)  # it requests only more time
        responses = {
            key: await _input(session, key, request)
            for key, request in (result.input_requests or {}).items()
        } or None
        state = result.request_state
    raise McpFailed(f"The server requested more input after each of {_MAX_ROUNDS} answers.")


async def _input(
    session: ClientSession, key: str, request: types.InputRequest
) -> types.InputResponse:
    if isinstance(request, types.ElicitRequest):
        return types.ElicitResult(action="decline")
    context = ClientRequestContext(session=session, request_id=key)
    response = await session.dispatch_input_request(context, request)
    if isinstance(response, types.ErrorData):
        raise MCPError.from_error_data(response)
    return response


T = TypeVar("T")
_NO_ANSWER = "The server's answer does not follow the protocol."
_UNKNOWN_VERSION = "The server uses a version of the protocol that this server does not support."
_MAX_ROUNDS = 10  # of requests for input, before one response
_ROUND_SECONDS = 0.2
_NOT_FOUND = 404
_SERVER_ERROR = 500
# In the `_meta` of a call: the same key if the call is repeated after a crash.
CALL_KEY = "crush-server/call-key"


class McpConnection:
    def __init__(self, attempt: McpAttempt) -> None:
        self._attempt = attempt
        attempt.on_fault = self.end
        self._session: ClientSession | None = None
        self._side: set[asyncio.Task[Any]] = set()
        self._pending = 0  # requests without a response
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._fault: Exception | None = None
        self.capabilities = types.ServerCapabilities()
        self.stale: set[McpChange] = set()  # lists that the server has reported as changed
        self.wake = asyncio.Event()

    @property
    def process(self) -> ProcessIdentity:
        child = self._attempt.child
        return child.identity if child is not None else ProcessIdentity()

    @property
    def has_ended(self) -> bool:
        return self._ended.done()

    async def wait_end(self, seconds: float) -> bool:
        """Returns whether the connection ends within this time."""
        await asyncio.wait({self._ended}, timeout=seconds)
        return self.has_ended

    async def end_reason(self) -> McpConnectionLost:
        fault = self._attempt.fault or self._fault
        if isinstance(fault, McpFailed):
            return McpConnectionLost(str(fault))
        if self._attempt.child is not None:
            return McpConnectionLost(await self._attempt.child.exit_reason())
        if self._attempt.was_refused and self._pending <= 1:
            # No other request was pending, so the server refused this one.
            return NotProcessed("The server requires a login.")
        return McpConnectionLost("The server closed the connection.")

    # -- requests: from any task

    async def call_tool(
        self, name: str, arguments: dict[str, Any], *, key: str, seconds: float, sees_images: bool
    ) -> ToolOutcome:
        """Calls a tool. A cancel is sent to the server. Raises ``McpFailed``."""

        async def call(session: ClientSession) -> types.CallToolResult:
            async def send(
                responses: types.InputResponses | None, state: str | None
            ) -> types.CallToolResult | types.InputRequiredResult:
                # The session's own method validates results with the server's schemas, which
                # could be written so that validation never ends.
                params = types.CallToolRequestParams(
                    name=name,
                    arguments=arguments,
                    input_responses=responses,
                    request_state=state,
                    _meta=cast("types.RequestParamsMeta", {CALL_KEY: key}) if key else None,
                )
                return await session.send_request(types.CallToolRequest(params=params), CALLED)

            return await with_inputs(session, send)

        try:
            result = await self.request(call, seconds=seconds)
        except StaleHeaders:
            # The server requires arguments in headers that its last list did not name.
            _ = await reread_offer(self, Offer(), McpChange.TOOLS, seconds=seconds)
            self._mark(McpChange.TOOLS)
            result = await self.request(call, seconds=seconds)
        return results.outcome_of(result, sees_images=sees_images)

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

            return await with_inputs(session, send)

        return results.prompt_text_of(await self.request(get, seconds=seconds))

    async def read_resource(self, uri: str, *, seconds: float) -> tuple[ResourceContent, ...]:
        async def read(session: ClientSession) -> types.ReadResourceResult:
            async def send(
                responses: types.InputResponses | None, state: str | None
            ) -> types.ReadResourceResult | types.InputRequiredResult:
                return await session.read_resource(
                    uri, input_responses=responses, request_state=state, allow_input_required=True
                )

            return await with_inputs(session, send)

        return results.contents_of(await self.request(read, seconds=seconds))

    async def reread_list(self, offer: Offer, change: McpChange, *, seconds: float) -> Offer:
        """Returns the offer with one list read again."""
        return await reread_offer(self, offer, change, seconds=seconds)

    async def ping(self, *, seconds: float) -> None:
        """Checks that the server responds. Raises ``McpConnectionLost``.

        An error response counts as a response, except with a status of 500 or more.
        """

        async def ping(session: ClientSession) -> types.EmptyResult | types.DiscoverResult:
            if session.protocol_version in MODERN_PROTOCOL_VERSIONS:  # they have no ping
                return await session.send_request(types.DiscoverRequest(), types.DiscoverResult)
            return await session.send_ping()

        try:
            await self.request(ping, seconds=seconds)
        except McpConnectionLost:
            raise
        except TooSlow:
            raise McpConnectionLost("The server no longer answers.") from None
        except McpFailed as failure:
            if self._attempt.status >= _SERVER_ERROR:
                raise McpConnectionLost(str(failure)) from None

    async def request(
        self, send_with: Callable[[ClientSession], Awaitable[T]], *, seconds: float
    ) -> T:
        session = self._session
        if session is None or self.has_ended:
            raise await self.end_reason()

        async def send() -> T:
            return await send_with(session)

        return await self._result(send(), seconds)

    async def _result(self, work: Coroutine[Any, Any, T], seconds: float | None) -> T:
        """Returns the result of a request.

        Raises ``McpConnectionLost`` when the connection ends first, ``TooSlow`` on a timeout,
        and ``McpFailed`` for an error response.
        """
        task = asyncio.create_task(work)
        self._pending += 1
        try:
            waited: set[asyncio.Future[Any]] = {task, self._ended}
            await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return await self._received(task)
            if self.has_ended:
                raise await self.end_reason()
            raise TooSlow(f"The server did not answer within {seconds:g} seconds.")
        finally:
            self._pending -= 1
            if not task.done():
                task.cancel()
                # The package sends the cancel to the server; no caller waits for that.
                self._side.add(task)
                task.add_done_callback(self._side.discard)
            task.add_done_callback(_retrieve_exception)

    async def _received(self, task: asyncio.Task[T]) -> T:
        try:
            return task.result()
        except MCPError as error:
            raise await self._failure(error.error) from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise await self.end_reason() from None
        except (ValueError, RuntimeError, BaseExceptionGroup) as error:
            # The package rejects the response; a group, where it sent several requests.
            text = _UNKNOWN_VERSION if "protocol version" in str(error) else _NO_ANSWER
            raise McpFailed(text) from None

    async def _failure(self, error: types.ErrorData) -> McpFailed:
        login = self._attempt.login
        match error.code:
            case types.CONNECTION_CLOSED:
                return await self.end_reason()
            case types.INVALID_REQUEST if self._attempt.lost_session:
                return NotProcessed("The server's session has expired.")
            case types.UNSUPPORTED_PROTOCOL_VERSION:
                return McpFailed(_UNKNOWN_VERSION)
            case types.HEADER_MISMATCH:
                return StaleHeaders(f"The server returned an error: {results.plain(error.message)}")
            case code if code == MORE_RIGHTS and login is not None and login.refusal:
                return McpFailed("The server requires more rights: log in to it again.")
        status = f" (status {self._attempt.status})" if self._attempt.status else ""
        return McpFailed(f"The server returned an error: {results.plain(error.message)}{status}")

    # -- incoming messages: in the connection's own task

    def complete(self, message: object) -> None:
        """Adds the ``resultType`` that a stateless server may omit and the package requires.

        Removes the output schemas of tools: they serve only a check that is never made.
        """
        if not isinstance(message, SessionMessage) or not isinstance(
            message.message, types.JSONRPCResponse
        ):
            return
        result, session = message.message.result, self._session
        if session is not None and session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            result.setdefault("resultType", "complete")
        tools = result.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict):
                tool.pop("outputSchema", None)

    async def handle_message(self, message: object) -> None:
        """Handles a message that the server sends unprompted.

        It must not wait: responses arrive on the same path.
        """
        if isinstance(message, Exception):
            self._fault = message
        else:
            change = CHANGES.get(type(message))  # type: ignore[arg-type]  # others are not in it
            if change is not None:
                self._mark(change)

    def _mark(self, change: McpChange) -> None:
        self.stale.add(change)
        self.wake.set()

    async def begin(self, session: ClientSession, negotiation: Coroutine[Any, Any, None]) -> None:
        """Completes the negotiation and subscribes to changes.

        Raises ``McpFailed``, and what the package raises.
        """
        try:
            await self._result(negotiation, None)
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
        self.capabilities = session.server_capabilities or types.ServerCapabilities()
        self._session = session
        wanted = announced(self.capabilities)
        if wanted and session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            listening = asyncio.create_task(
                listen_for_changes(
                    session,
                    wanted,
                    self._mark,
                    pause_seconds=self._attempt.timeouts.relisten_seconds,
                )
            )
            self._side.add(listening)
            listening.add_done_callback(self._side.discard)
            listening.add_done_callback(_retrieve_exception)

    def end(self) -> None:
        """Marks the connection as ended, which fails all pending requests."""
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
    """The server did not respond in time."""


class StaleHeaders(McpFailed):
    """The server refused a call because required arguments were missing from its headers."""


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    """Retrieves the exception, so that asyncio does not log it.

    The failure was already reported, or the connection or the timeout ended first.
    """
    if not task.cancelled():
        task.exception()
