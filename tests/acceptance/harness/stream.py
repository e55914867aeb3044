"""A client's event stream on the `/v1` interface, read in the background and recorded whole."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.acceptance.harness.http import Http, UnexpectedStatus
from tests.acceptance.harness.recorder import Recorder
from tests.acceptance.harness.sse import SseParser


@dataclass(frozen=True, slots=True)
class Event:
    """One `data:` line, unwrapped."""

    type: str
    action: str  # created, updated, deleted
    payload: dict[str, Any]
    at: float  # time.time() of arrival

    @property
    def session(self) -> str:
        return str(self.payload.get("session_id", ""))

    @property
    def text(self) -> str:
        """The text parts of a message, joined."""
        parts = self.payload.get("parts") or []
        return "".join(p["data"].get("text", "") for p in parts if p["type"] == "text")

    @property
    def finish(self) -> str | None:
        """The finish reason of a message that has one."""
        return finish_reason(self.payload)


def finish_reason(message: dict[str, Any]) -> str | None:
    """`end_turn`, `canceled`, ...; None while a message is not finished."""
    for part in message.get("parts") or []:
        if part["type"] == "finish":
            return str(part["data"]["reason"])
    return None


class EventStream:
    """Opened by `open`, read until `close` or `abort`. `events` holds all, in order of arrival."""

    def __init__(self, http: Http, path: str, params: dict[str, str]) -> None:
        self._http = http
        self._path = path
        self._params = params
        self._answer: aiohttp.ClientResponse | None = None
        self._reader: asyncio.Task[None] | None = None
        self._record: Recorder[Event] = Recorder(f"events of {params.get('client_id', path)}")
        self.heartbeats = 0
        self.comments: list[str] = []  # must stay empty: the clients of this wire warn about them

    @property
    def events(self) -> list[Event]:
        return self._record.items

    @property
    def ended(self) -> str | None:
        return self._record.ended

    async def open(self) -> "EventStream":
        """Return once the head is here: the server then counts this client as attached."""
        self._answer = await self._http.session.get(
            self._http.url + self._path,
            params=self._params,
            headers={"Accept": "text/event-stream"},
        )
        if self._answer.status != 200:
            text = await self._answer.text()
            raise UnexpectedStatus("GET", self._path, self._answer.status, text)
        self._reader = asyncio.create_task(self._read(self._answer))
        return self

    async def _read(self, answer: aiohttp.ClientResponse) -> None:
        parser = SseParser()
        try:
            async for chunk in answer.content.iter_any():
                at = time.time()
                if not chunk.strip():
                    self.heartbeats += 1
                for frame in parser.feed(chunk):
                    if frame.comment is not None:
                        self.comments.append(frame.comment)
                        continue
                    wrapped = json.loads(frame.data)
                    inner = wrapped["payload"]
                    self._record.add(Event(wrapped["type"], inner["type"], inner["payload"], at))
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            self._record.end(repr(error))
        except (
            Exception
        ) as error:  # a broken event must fail the test that waits, not only be logged
            self._record.end(f"unreadable: {error!r}")
        else:
            self._record.end("end of stream")

    def mark(self) -> int:
        """The index of the next event, for `start=`."""
        return len(self.events)

    async def wait_for(
        self, predicate: Callable[[Event], bool], timeout: float = 60, *, start: int = 0
    ) -> Event:
        """The first event, also of those before this call, for which `predicate` holds."""
        return await self._record.wait_for(predicate, timeout, start=start)

    async def wait_end(self, timeout: float = 60) -> str:
        return await self._record.wait_end(timeout)

    def of(self, kind: str, session: str | None = None) -> list[Event]:
        """Those of one type, of one session where it is given."""
        return [e for e in self.events if e.type == kind and session in (None, e.session)]

    async def run_complete(
        self,
        session: str | None = None,
        run_id: str | None = None,
        timeout: float = 60,
        *,
        start: int = 0,
    ) -> dict[str, Any]:
        """The payload of the first `run_complete` that fits."""

        def fits(event: Event) -> bool:
            return (
                event.type == "run_complete"
                and session in (None, event.session)
                and run_id in (None, event.payload.get("run_id"))
            )

        return (await self.wait_for(fits, timeout, start=start)).payload

    async def words(self, session: str, count: int = 1, timeout: float = 60) -> Event:
        """The first assistant message of the session with at least `count` words."""

        def fits(event: Event) -> bool:
            return (
                event.type == "message"
                and event.session == session
                and event.payload.get("role") == "assistant"
                and len(event.text.split()) >= count
            )

        return await self.wait_for(fits, timeout)

    def errors(self) -> list[Event]:
        """Error events: `agent_event` of type error, and `run_complete` with an error."""
        return [
            e
            for e in self.events
            if (e.type == "agent_event" and e.payload.get("type") == "error")
            or (e.type == "run_complete" and e.payload.get("error"))
        ]

    async def close(self) -> None:
        """Leave: the connection is closed, which is all that a client of this wire does."""
        if self._answer is not None:
            self._answer.close()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        self._record.end("closed by the test")

    async def abort(self) -> None:
        """Leave with a TCP reset, as a killed client's machine may."""
        connection = None if self._answer is None else self._answer.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        await self.close()
