"""The commands of a stream: sent over its connection, and again over the next one."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import orjson

from crushclient.connections import ConnectionEnded, StreamConnection
from crushclient.errors import CommandUnconfirmed, StreamClosed, error_of
from crushclient.retries import RetryPolicy

Answer: TypeAlias = Literal["allow", "allow_session", "deny"]
COMMAND_SECONDS = 60.0


class _Pending:
    """A command without a reply yet."""

    __slots__ = ("is_repeatable", "message", "reply", "was_sent")

    def __init__(self, message: bytes, *, is_repeatable: bool) -> None:
        self.message = message
        self.is_repeatable = is_repeatable
        self.was_sent = False
        self.reply: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()


class Commands:
    """What a stream offers besides its items. The stream reports its connections."""

    def __init__(self, retry: RetryPolicy, *, begins: Callable[[], None]) -> None:
        """``begins`` is called before a command waits for its reply."""
        self._retry = retry
        self._command_begins = begins
        self._pending: dict[int, _Pending] = {}
        self._last_id = 0
        self._connection: StreamConnection | None = None
        self._ended: BaseException | None = StreamClosed("the stream is not open")

    # -- for the stream

    @property
    def _has_pending(self) -> bool:
        return bool(self._pending)

    async def _connected(self, connection: StreamConnection) -> None:
        self._connection = connection
        for pending in list(self._pending.values()):
            await self._send(connection, pending)

    def _disconnected(self) -> None:
        self._connection = None
        for number, pending in list(self._pending.items()):
            if pending.was_sent and not pending.is_repeatable:
                del self._pending[number]
                _fail(pending, CommandUnconfirmed("the connection ended before the reply"))

    def _end_commands(self, error: BaseException | None) -> None:
        self._ended = error or StreamClosed("the stream is closed")
        for pending in self._pending.values():
            _fail(pending, CommandUnconfirmed("the stream ended before the reply"))
        self._pending.clear()

    @staticmethod
    async def _send(connection: StreamConnection, pending: _Pending) -> None:
        pending.was_sent = True
        with suppress(ConnectionEnded):  # the reader notices it, too
            await connection.send(pending.message)

    def _resolve(self, reply: Mapping[str, Any]) -> None:
        pending = self._pending.pop(reply.get("id"), None)  # type: ignore[arg-type]  # any JSON value
        if pending is not None and not pending.reply.done():
            pending.reply.set_result(reply)

    # -- for programs

    async def command(
        self,
        name: str,
        *,
        is_repeatable: bool = False,
        seconds: float = COMMAND_SECONDS,
        **fields: Any,
    ) -> Mapping[str, Any]:
        """Sends a command and returns the data of its reply. Raises ``ApiError``.

        A repeatable command is sent again on the next connection if its reply did not come. Another
        one then raises ``CommandUnconfirmed``. Fields that are ``None`` are left out.
        """
        retry = self._retry
        body = {key: value for key, value in fields.items() if value is not None}
        for failures in range(1, retry.attempts + 1):
            reply = await self._exchange(name, body, is_repeatable=is_repeatable, seconds=seconds)
            if reply.get("ok"):
                return dict(reply.get("data") or {})
            error = error_of(_status_of(reply), reply)
            if not is_repeatable or error.status not in retry.statuses:
                raise error
            if failures < retry.attempts:
                await asyncio.sleep(retry.pause(failures))
        raise error

    async def _exchange(
        self, name: str, body: Mapping[str, Any], *, is_repeatable: bool, seconds: float
    ) -> Mapping[str, Any]:
        if self._ended is not None:
            raise self._ended
        self._last_id += 1
        number = self._last_id
        message = orjson.dumps({"id": number, "command": name, **body})
        pending = self._pending[number] = _Pending(message, is_repeatable=is_repeatable)
        self._command_begins()
        try:
            async with asyncio.timeout(seconds):
                if self._connection is not None:
                    await self._send(self._connection, pending)
                return await pending.reply
        except TimeoutError:
            raise CommandUnconfirmed(f"no reply came within {seconds:g} s") from None
        finally:
            self._pending.pop(number, None)

    async def prompt(
        self,
        session_id: str,
        text: str,
        *,
        run_id: str | None = None,
        attachments: Sequence[Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> str:
        """Returns the run's id when the prompt is durably accepted; accepted once, in any case.

        ``options`` are the further fields of the command: ``strategy``, ``model``, ``budget``, ….
        """
        run_id = run_id or str(uuid.uuid4())
        await self.command(
            "prompt",
            is_repeatable=True,
            session_id=session_id,
            text=text,
            run_id=run_id,
            attachments=attachments,
            **options,
        )
        return run_id

    async def cancel(self, session_id: str) -> None:
        """Cancels everything that the session accepted before."""
        await self.command("cancel", session_id=session_id, is_repeatable=True)

    async def answer(self, request_id: str, answer: Answer | str, **options: Any) -> bool:
        """Answers a permission request; returns whether this answer was the first.

        If the connection ended before the reply, the answer is sent again: ``False`` may then
        mean that its first copy arrived. ``permission.resolved`` names who answered.
        """
        data = await self.command(
            "answer", is_repeatable=True, request_id=request_id, answer=answer, **options
        )
        return bool(data.get("resolved"))

    async def answer_questions(
        self, responses: Sequence[Mapping[str, Any]], *, batch_id: str | None = None
    ) -> bool:
        """Answers a batch of questions; returns whether these answers were the first."""
        data = await self.command(
            "answer_questions", is_repeatable=True, batch_id=batch_id, responses=list(responses)
        )
        return bool(data.get("resolved"))

    async def dismiss_questions(self, *, batch_id: str | None = None) -> bool:
        """Dismisses a batch of questions; without an id the oldest that is open."""
        repeatable = batch_id is not None  # otherwise it may be the next one by then
        data = await self.command("dismiss_questions", is_repeatable=repeatable, batch_id=batch_id)
        return bool(data.get("resolved"))

    async def ping(self) -> None:
        """Returns when the server has replied."""
        await self.command("ping", is_repeatable=True)


def _fail(pending: _Pending, error: CommandUnconfirmed) -> None:
    if not pending.reply.done():
        pending.reply.set_exception(error)
        # A command whose task was cancelled never reads it.
        pending.reply.exception()


_STATUSES = {
    "bad_field": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "forbidden_to_tools": 403,
    "queue_full": 429,
    "internal_error": 500,
    "shutting_down": 503,
    "database_unreachable": 503,
    "database_locked": 503,
    "storage_full": 507,
}


def _status_of(reply: Mapping[str, Any]) -> int:
    """The status of a refused command; servers before this field sent the code only."""
    status = reply.get("status")
    if isinstance(status, int):
        return status
    code = str(reply.get("code", ""))
    return _STATUSES.get(code, 404 if code.endswith("_unknown") else 409)
