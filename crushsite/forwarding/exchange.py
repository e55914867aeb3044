"""Sends requests to workers over the channel layer, and receives them there.

A message is encrypted with the key of the stored secrets: who can write to the channel layer alone
can forge none. The layer may lose messages: the sender then gets no answer. A worker first sends
that it performs a request, so that a lost one is not waited for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from channels.layers import get_channel_layer  # noqa: TID251  requests, which are no events
from django.db import Error

from crushsite.forwarding.messages import (
    ACCEPTED,
    LONGEST_MESSAGE,
    BadMessage,
    ForwardedAnswer,
    ForwardedRequest,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
)
from workspaces.backoff import Backoff
from workspaces.log.errors import Refusal
from workspaces.log.log_throttle import LogThrottle
from workspaces.log.reader import read
from workspaces.log.secrets import SecretsUnavailable, box
from workspaces.log.timestamps import now_ms
from workspaces.queries.processes import is_registered
from workspaces.tasks import cancel_within, wait_for_all

logger = logging.getLogger(__name__)

LAYER_SECONDS = 2.0
STOPPING_SECONDS = 2.0
TURN_SECONDS = 10.0  # until a message may be sent
SENT_AT_ONCE = 4  # messages of this process
LOOK_SECONDS = 2.0  # how often it is checked that the worker lives
AT_ONCE = 100  # requests that a worker performs
LONGEST_SEALED = 2 * LONGEST_MESSAGE

Perform = Callable[[ForwardedRequest], Awaitable[ForwardedAnswer]]
Refuse = Callable[[ForwardedRequest, Refusal], ForwardedAnswer]

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


class WorkerBusy(Refusal):
    """The worker that has the folder of this workspace performs too many requests. Try again in a moment."""

    code = "worker_busy"
    status = 503
    retry_after_seconds = 2


class WorkerFailed(Refusal):
    """The worker that has the folder could not answer. Its log has the reason."""

    code = "internal"
    status = 500


def group_of(worker: str) -> str:
    """Returns the group in which a worker receives requests. Its id may get a suffix later."""
    return f"forwarded.{worker.partition('.')[0]}"


class _OwnChannel:
    """A channel of this process, with a task that receives from it."""

    def __init__(self, handle: Callable[[str], Awaitable[None]], *, group: str = "") -> None:
        self._handle = handle
        self._group = group
        self._task: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._throttle = LogThrottle()
        self.name = ""

    async def open(self) -> None:
        async with self._opening:
            if self._task is None:
                await self._join()
                self._task = asyncio.create_task(self._receive_all(), name="forwarding")

    async def close(self) -> None:
        if self._task is not None:
            await cancel_within([self._task], seconds=STOPPING_SECONDS)

    async def _join(self) -> None:
        layer: Any = get_channel_layer()
        async with asyncio.timeout(LAYER_SECONDS):
            self.name = await layer.new_channel()
            if self._group:
                await layer.group_add(self._group, self.name)

    async def _receive_all(self) -> None:
        layer: Any = get_channel_layer()
        backoff = Backoff(limit_seconds=5.0)
        while True:
            try:
                message = await layer.receive(self.name)
                sealed = message.get("sealed")
                if isinstance(sealed, str) and len(sealed) <= LONGEST_SEALED:
                    await self._handle(await asyncio.to_thread(box().open, sealed))
            except (BadMessage, SecretsUnavailable) as error:
                if self._throttle.admit("message") is not None:
                    logger.warning("a forwarded message was dropped: %s", error)
            except Exception as error:  # noqa: BLE001  Redis may come back
                if self._throttle.admit("layer") is not None:
                    logger.warning("the channel layer failed: %s", error)
                await asyncio.sleep(backoff.next_seconds())


async def _send(send: Callable[..., Awaitable[None]], target: str, text: str) -> None:
    turn = _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(SENT_AT_ONCE))
    async with asyncio.timeout(TURN_SECONDS), turn:
        sealed = await asyncio.to_thread(box().seal, text)
        async with asyncio.timeout(LAYER_SECONDS):
            await send(target, {"type": "forwarded", "sealed": sealed})


async def _is_live(worker: str) -> bool:
    try:
        return await read(is_registered, worker, now_ms())
    except (Refusal, Error):  # the worker may answer without the database
        return True


def _checked_request(request: ForwardedRequest) -> str:
    """Encodes a request that its receiver will not drop. Raises ``BadMessage``."""
    text = encode_request(request)
    decode_request(text)
    return text


def _checked_answer(answer: ForwardedAnswer) -> str:
    """Raises ``BadMessage``."""
    text = encode_answer(answer)
    decode_answer(text)
    return text


@dataclass(slots=True, eq=False)
class ExpectedAnswer:
    answer: asyncio.Future[ForwardedAnswer] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    is_accepted: bool = False  # the worker performs the request


class RequestSender:
    """The side of a web process."""

    def __init__(self) -> None:
        self._channel = _OwnChannel(self._receive)
        self._waiting: dict[str, ExpectedAnswer] = {}

    async def channel(self) -> str:
        """Returns the channel for answers. Raises the layer's error."""
        await self._channel.open()
        return self._channel.name

    async def send(self, request: ForwardedRequest) -> ExpectedAnswer:
        """Sends a request; returns its answer to come.

        Raises the layer's error, or ``BadMessage`` if no worker would accept the request.
        """
        text = await asyncio.to_thread(_checked_request, request)
        expected = self._waiting[request.id] = ExpectedAnswer()
        expected.answer.add_done_callback(lambda _: self._waiting.pop(request.id, None))
        try:
            layer: Any = get_channel_layer()
            await _send(layer.group_send, group_of(request.worker), text)
        except BaseException:
            expected.answer.cancel()
            raise
        return expected

    async def wait(
        self, expected: ExpectedAnswer, worker: str, *, seconds: float, accept_seconds: float
    ) -> ForwardedAnswer | None:
        """Waits for the answer, as long as its worker lives and has accepted the request."""
        loop, answer = asyncio.get_running_loop(), expected.answer
        until, accepted_until = loop.time() + seconds, loop.time() + accept_seconds
        try:
            while (now := loop.time()) < until:
                if not expected.is_accepted and now >= accepted_until:
                    break
                ends = until if expected.is_accepted else min(until, accepted_until)
                await asyncio.wait({answer}, timeout=min(LOOK_SECONDS, ends - now))
                if answer.done() or not await _is_live(worker):
                    break
            return answer.result() if answer.done() else None
        finally:
            answer.cancel()

    async def stop(self) -> None:
        await self._channel.close()

    async def _receive(self, text: str) -> None:
        answer = decode_answer(text)
        expected = self._waiting.get(answer.id)
        if expected is None or expected.answer.done():
            return
        expected.is_accepted = True
        if answer.status != ACCEPTED:
            expected.answer.set_result(answer)


class RequestReceiver:
    """The side of a worker: performs requests, each once."""

    def __init__(self, worker: Callable[[], str], perform: Perform, refuse: Refuse) -> None:
        """``worker`` returns the id under which this process is registered now."""
        self._worker, self._perform, self._refuse = worker, perform, refuse
        self._channel = _OwnChannel(self._receive, group=group_of(worker()))
        self._seen: dict[str, int] = {}  # until when a repeated message could count
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusing: set[asyncio.Task[bool]] = set()

    async def start(self) -> None:
        await self._channel.open()

    async def stop(self) -> None:
        """Sends the answers that are due, then ends the rest: who waits for it gets an error."""
        await self._channel.close()
        await wait_for_all(self._tasks, seconds=STOPPING_SECONDS)
        await cancel_within([*self._tasks, *self._refusing], seconds=STOPPING_SECONDS)

    async def _receive(self, text: str) -> None:
        request = decode_request(text)
        now = now_ms()
        self._seen = {key: until for key, until in self._seen.items() if until > now}
        if request.expires_at <= now or request.id in self._seen:
            return
        # A recorded message could be sent again, to another worker or after a restart.
        if request.worker != self._worker():
            raise BadMessage("worker")
        self._seen[request.id] = request.expires_at
        if len(self._tasks) >= AT_ONCE:
            self._send_refusal(request)
            return
        task = asyncio.create_task(self._answer(request), name="forwarded request")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: ForwardedRequest) -> None:
        # If this cannot be sent, the answer would be lost too: the request is not performed.
        if await self._reply(request, ForwardedAnswer(request.id, ACCEPTED, ())):
            await self._reply(request, await self._perform(request))

    def _send_refusal(self, request: ForwardedRequest) -> None:
        if len(self._refusing) >= AT_ONCE:
            return
        answer = self._refuse(request, WorkerBusy())
        task = asyncio.create_task(self._reply(request, answer), name="refused request")
        self._refusing.add(task)
        task.add_done_callback(self._refusing.discard)

    async def _reply(self, request: ForwardedRequest, answer: ForwardedAnswer) -> bool:
        """Returns whether it was sent."""
        try:
            text = await asyncio.to_thread(_checked_answer, answer)
        except BadMessage as error:
            logger.warning("the answer to a forwarded request cannot be sent: %s", error)
            text = encode_answer(self._refuse(request, WorkerFailed()))
        try:
            layer: Any = get_channel_layer()
            await _send(layer.send, request.answer_to, text)
        except Exception as error:  # noqa: BLE001  who waits gets an error of its own
            logger.warning("a message about a forwarded request was lost: %s", error)
            return False
        return True
