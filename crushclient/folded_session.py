"""A session that stays up to date: a snapshot and then the stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Self
from urllib.parse import quote

from crushclient.commands import Answer
from crushclient.errors import ConflictError, StreamClosed
from crushclient.items import StateReplaced, StreamItem
from crushclient.session_state import FoldedMessage, SessionState
from crushclient.stream import EventStream, Protocol
from crushclient.transport import HttpTransport

Json = Mapping[str, Any]
# The server went back to an older state, for instance a restored backup; or it has deleted events
# that the stream has not sent.
_OUTSIDE_LOG = frozenset({"cursor_ahead", "cursor_expired"})
# After these events the messages are others than the stream has sent.
_REWRITING = frozenset({"session.rewound", "session.rewind_undone"})


class FoldedSession:
    """An async context manager. Iteration yields each item that concerns the session.

    The state includes an item as soon as the iterator has returned it. It changes
    only while the program iterates, or waits in ``wait_until`` or ``finish``.
    """

    def __init__(
        self,
        transport: HttpTransport,
        workspace_id: str,
        session_id: str,
        *,
        client_id: str | None = None,
        path: str | None = None,
        protocol: Protocol = "websocket",
        limit: int | None = None,
    ) -> None:
        self.workspace_id = workspace_id
        self.session_id = session_id
        self._transport = transport
        self._client_id = client_id
        self._path = path
        self._protocol: Protocol = protocol
        self._limit = limit
        self._state: SessionState | None = None
        self._stream: EventStream | None = None

    async def __aenter__(self) -> Self:
        await self._load()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._stream is not None:
            await self._stream.close()

    # -- the state

    @property
    def state(self) -> SessionState:
        if self._state is None:
            raise StreamClosed("open the session first: `async with client.follow(…) as session`")
        return self._state

    @property
    def stream(self) -> EventStream:
        """The stream, for commands. Do not iterate it as well."""
        if self._stream is None:
            raise StreamClosed("open the session first: `async with client.follow(…) as session`")
        return self._stream

    @property
    def messages(self) -> list[FoldedMessage]:
        """In the order in which they began."""
        return list(self.state.messages.values())

    @property
    def session(self) -> Json | None:
        return self.state.session

    @property
    def permissions(self) -> list[Json]:
        """The requests that wait for an answer, also those of the sessions that it started."""
        return list(self.state.permissions.values())

    @property
    def questions(self) -> list[Json]:
        return list(self.state.questions.values())

    @property
    def runs(self) -> list[Json]:
        return list(self.state.runs.values())

    @property
    def queue(self) -> list[Json]:
        return self.state.queue

    @property
    def is_busy(self) -> bool:
        return self.state.is_busy

    # -- items

    def __aiter__(self) -> AsyncIterator[StreamItem]:
        return self

    async def __anext__(self) -> StreamItem:
        while True:
            try:
                item = await anext(self.stream)
            except ConflictError as error:
                if error.code not in _OUTSIDE_LOG:
                    raise
                return await self._replaced()
            if getattr(item, "type", "") in _REWRITING:
                return await self._replaced()
            if self.state.apply(item):
                return item

    async def _replaced(self) -> StreamItem:
        await self.close()
        await self._load()
        return StateReplaced(self.state.number)

    async def _load(self) -> None:
        reply = await self._transport.request(
            "GET",
            f"/api/workspaces/{quote(self.workspace_id, safe='')}/snapshot",
            query={"session": self.session_id, "limit": self._limit},
        )
        self._state = SessionState(self.session_id, reply.data)
        self._stream = EventStream(
            self._transport,
            self.workspace_id,
            after=self._state.number,
            client_id=self._client_id,
            path=self._path,
            protocol=self._protocol,
        )
        await self._stream.open()

    async def wait_until(self, condition: Callable[[SessionState], bool]) -> None:
        """Reads items until the condition holds. Raises ``StreamClosed`` if the stream ends."""
        while not condition(self.state):
            try:
                await anext(self)
            except StopAsyncIteration:
                raise StreamClosed("the stream ended before the condition held") from None

    async def finish(self, run_id: str) -> Json:
        """Reads items until the run has ended; returns it with its ``outcome``."""

        def has_ended(state: SessionState) -> bool:
            run = state.run_of(run_id)
            return run is not None and run["state"] == "finished"

        await self.wait_until(has_ended)
        run = self.state.run_of(run_id)
        if run is None:
            raise AssertionError
        return run

    # -- commands

    async def prompt(self, text: str, *, run_id: str | None = None, **options: Any) -> str:
        """Returns the run's id when the prompt is durably accepted."""
        return await self.stream.prompt(self.session_id, text, run_id=run_id, **options)

    async def cancel(self) -> None:
        """Cancels everything that the session accepted before."""
        await self.stream.cancel(self.session_id)

    async def answer(self, request_id: str, answer: Answer | str, **options: Any) -> bool:
        """Answers a permission request; returns whether this answer was the first."""
        return await self.stream.answer(request_id, answer, **options)

    async def answer_questions(self, batch_id: str, responses: Sequence[Mapping[str, Any]]) -> bool:
        """Answers a batch of questions; returns whether these answers were the first."""
        return await self.stream.answer_questions(responses, batch_id=batch_id)

    async def dismiss_questions(self, batch_id: str) -> bool:
        return await self.stream.dismiss_questions(batch_id=batch_id)
