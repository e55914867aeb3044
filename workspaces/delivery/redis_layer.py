"""A channel layer over the publish and subscribe of Redis.

It has the interface of Channels' layers, and names and encodes messages as channels-redis does, so
that processes of earlier releases understand them. Messages are lost while Redis is away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import uuid4

import msgpack
from channels.layers import BaseChannelLayer
from typing_extensions import override

from workspaces.backoff import Backoff
from workspaces.delivery.redis_link import RedisFailed, RedisLink, RedisServer
from workspaces.log.log_throttle import LogThrottle

logger = logging.getLogger(__name__)

RECONNECT_SECONDS = 0.5  # the longest pause before a lost subscription is renewed
QUEUE_LIMIT = 10_000  # messages that wait in a channel; further ones are lost


class RedisConnection:
    """A link that is opened when it is needed, and again as long as channels are subscribed.

    A task owns it, so that it is closed with its event loop.
    """

    def __init__(self, server: RedisServer, on_message: Callable[[bytes, bytes], None]) -> None:
        self._server = server
        self._on_message = on_message
        self._channels: set[str] = set()
        self._attempt: asyncio.Future[RedisLink | RedisFailed]  # the newest
        self._task: asyncio.Task[None] | None = None
        self._throttle = LogThrottle()

    async def call(self, *words: str | bytes) -> Any:
        """Raises ``RedisFailed``."""
        return await (await self._link()).call(*words)

    async def subscribe(self, channel: str) -> None:
        """Raises ``RedisFailed``; then the channel is subscribed as soon as Redis is there."""
        self._channels.add(channel)
        await self.call("SUBSCRIBE", channel)

    def unsubscribe(self, channel: str) -> None:
        self._channels.discard(channel)
        if self._task is not None and self._attempt.done():
            link = self._attempt.result()
            if isinstance(link, RedisLink):
                _ = link.begin("UNSUBSCRIBE", channel)  # nothing depends on its reply

    async def _link(self) -> RedisLink:
        if self._task is None or self._task.done():
            self._attempt = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._keep(), name="redis")
        link = await asyncio.shield(self._attempt)
        if isinstance(link, RedisFailed):
            raise link
        return link

    async def _keep(self) -> None:
        backoff = Backoff(limit_seconds=RECONNECT_SECONDS)
        while True:
            try:
                link = await self._server.connect(self._on_message)
                try:
                    for reply in [link.begin("SUBSCRIBE", channel) for channel in self._channels]:
                        if isinstance(refusal := await reply, RedisFailed):
                            raise refusal
                    self._end_attempt(link)
                    backoff = Backoff(limit_seconds=RECONNECT_SECONDS)
                    await link.lost
                finally:
                    link.close()
            except RedisFailed as error:
                self._end_attempt(error)
                if self._channels and self._throttle.admit("redis") is not None:
                    logger.warning("Redis cannot be reached: %s", error)
            if not self._channels:
                return
            await asyncio.sleep(backoff.next_seconds())

    def _end_attempt(self, result: RedisLink | RedisFailed) -> None:
        if self._attempt.done():
            self._attempt = asyncio.get_running_loop().create_future()
        self._attempt.set_result(result)


class RedisLoop:
    """The connections and the channels of one event loop."""

    def __init__(self, server: RedisServer) -> None:
        self.sender = RedisConnection(server, lambda _channel, _data: None)
        self.subscriber = RedisConnection(server, self._receive)
        self.queues: dict[bytes, asyncio.Queue[bytes]] = {}
        self.groups: dict[bytes, set[bytes]] = {}

    async def open(self, channel: str) -> asyncio.Queue[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue(QUEUE_LIMIT)
        self.queues[channel.encode()] = queue
        try:
            await self.subscriber.subscribe(channel)
        except BaseException:
            self.close(channel)
            raise
        return queue

    def close(self, channel: str) -> None:
        if self.queues.pop(channel.encode(), None) is not None:
            self.subscriber.unsubscribe(channel)
        for group in list(self.groups):
            self.leave(group.decode(), channel)

    async def join(self, group: str, channel: str) -> None:
        self.groups.setdefault(group.encode(), set()).add(channel.encode())
        await self.subscriber.subscribe(group)

    def leave(self, group: str, channel: str) -> None:
        members = self.groups.get(group.encode(), set())
        members.discard(channel.encode())
        if not members and self.groups.pop(group.encode(), None) is not None:
            self.subscriber.unsubscribe(group)

    def _receive(self, name: bytes, data: bytes) -> None:
        for channel in self.groups.get(name, (name,)):
            queue = self.queues.get(channel)
            if queue is not None:
                with suppress(asyncio.QueueFull):
                    queue.put_nowait(data)


class RedisLayer(BaseChannelLayer):
    """``CONFIG`` has the ``url`` of Redis, and a ``prefix`` for servers that share one Redis."""

    extensions = ("groups",)

    def __init__(self, *, url: str, prefix: str, **options: Any) -> None:
        super().__init__(**options)
        self._url = url
        self._prefix = prefix
        self._loops: dict[asyncio.AbstractEventLoop, RedisLoop] = {}

    def _here(self) -> RedisLoop:
        loop = asyncio.get_running_loop()
        here = self._loops.get(loop)
        if here is None:
            for ended in [each for each in self._loops if each.is_closed()]:
                del self._loops[ended]
            here = self._loops[loop] = RedisLoop(RedisServer.from_url(self._url))
        return here

    @override
    async def new_channel(self, prefix: str = "specific.") -> str:
        channel = f"{self._prefix}{prefix}{uuid4().hex}"
        await self._here().open(channel)
        return channel

    @override
    async def send(self, channel: str, message: Any) -> None:
        await self._here().sender.call("PUBLISH", channel, msgpack.packb(message))

    @override
    async def receive(self, channel: str) -> Any:
        """Returns the next message. If it is cancelled, the channel ends."""
        here = self._here()
        try:
            queue = here.queues.get(channel.encode()) or await here.open(channel)
            data = await queue.get()
        except BaseException:
            here.close(channel)
            raise
        return msgpack.unpackb(data)

    @override
    async def group_add(self, group: str, channel: str) -> None:
        await self._here().join(self._group(group), channel)

    @override
    async def group_discard(self, group: str, channel: str) -> None:
        self._here().leave(self._group(group), channel)

    @override
    async def group_send(self, group: str, message: Any) -> None:
        await self._here().sender.call("PUBLISH", self._group(group), msgpack.packb(message))

    def _group(self, group: str) -> str:
        return f"{self._prefix}__group__{group}"
