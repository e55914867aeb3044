"""Sends requests to workers over the channel layer, and receives them there.

A message is encrypted with the key of the stored secrets: who can write to the channel layer alone
can forge none. The layer may lose messages: the sender then gets no answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from channels.layers import get_channel_layer  # noqa: TID251  requests, which are no events

from crushsite.forwarding.messages import (
    BadMessage,
    ForwardedAnswer,
    ForwardedRequest,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
)
from workspaces.backoff import Backoff
from workspaces.log.log_throttle import LogThrottle
from workspaces.log.secrets import SecretsUnavailable, box
from workspaces.log.timestamps import now_ms
from workspaces.tasks import cancel_within

logger = logging.getLogger(__name__)

LAYER_SECONDS = 2.0
STOPPING_SECONDS = 2.0
AT_ONCE = 100  # requests that a worker performs
LONGEST_SEALED = 32 << 20

Perform = Callable[[ForwardedRequest], Awaitable[ForwardedAnswer]]


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
    sealed = await asyncio.to_thread(box().seal, text)
    async with asyncio.timeout(LAYER_SECONDS):
        await send(target, {"type": "forwarded", "sealed": sealed})


class RequestSender:
    """The side of a web process."""

    def __init__(self) -> None:
        self._channel = _OwnChannel(self._receive)
        self._waiting: dict[str, asyncio.Future[ForwardedAnswer]] = {}

    async def channel(self) -> str:
        """Returns the channel for answers. Raises the layer's error."""
        await self._channel.open()
        return self._channel.name

    async def send(self, worker: str, request: ForwardedRequest) -> asyncio.Future[ForwardedAnswer]:
        """Sends a request; returns its answer to come. Raises the layer's error."""
        answer = asyncio.get_running_loop().create_future()
        self._waiting[request.id] = answer
        answer.add_done_callback(lambda _: self._waiting.pop(request.id, None))
        try:
            layer: Any = get_channel_layer()
            await _send(layer.group_send, group_of(worker), encode_request(request))
        except BaseException:
            answer.cancel()
            raise
        return answer

    async def stop(self) -> None:
        await self._channel.close()

    async def _receive(self, text: str) -> None:
        answer = decode_answer(text)
        waiting = self._waiting.get(answer.id)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)


class RequestReceiver:
    """The side of a worker: performs requests, each once."""

    def __init__(self, worker: str, perform: Perform) -> None:
        self._perform = perform
        self._channel = _OwnChannel(self._receive, group=group_of(worker))
        self._seen: dict[str, int] = {}  # until when a repeated message could count
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        await self._channel.open()

    async def stop(self) -> None:
        """Ends what is being performed: who waits for it gets an error."""
        await self._channel.close()
        await cancel_within(self._tasks, seconds=STOPPING_SECONDS)

    async def _receive(self, text: str) -> None:
        request = decode_request(text)
        now = now_ms()
        self._seen = {key: until for key, until in self._seen.items() if until > now}
        if request.expires_at <= now or request.id in self._seen or len(self._tasks) >= AT_ONCE:
            return
        self._seen[request.id] = request.expires_at
        task = asyncio.create_task(self._answer(request), name="forwarded request")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: ForwardedRequest) -> None:
        answer = await self._perform(request)
        try:
            layer: Any = get_channel_layer()
            await _send(layer.send, request.answer_to, encode_answer(answer))
        except Exception as error:  # noqa: BLE001  who waits gets an error of its own
            logger.warning("the answer to a forwarded request was lost: %s", error)
