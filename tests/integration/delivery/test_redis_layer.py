"""The channel layer over a real Redis: messages between processes, and what happens in outages."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from channels_redis.pubsub import RedisPubSubChannelLayer

from tests.acceptance.harness.redis import Redis, redis_binary
from tests.doubles.tcp_proxy import Mode, TcpProxy
from workspaces.delivery.redis_layer import RedisLayer
from workspaces.delivery.redis_link import RedisFailed, RedisServer

HELLO = {"type": "hello", "bytes": b"\x00\xff", "list": [1, None, "ä"]}


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    if redis_binary() is None:
        reason = "this test needs Redis: install the package redis-server"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    server = Redis(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def url(redis: Redis) -> str:
    return redis.new_url()


@pytest_asyncio.fixture
async def tasks_end() -> AsyncIterator[None]:
    yield
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


pytestmark = pytest.mark.usefixtures("tasks_end")


def layer_at(url: str, prefix: str = "test") -> RedisLayer:
    return RedisLayer(url=url, prefix=prefix)


async def received(layer: Any, channel: str) -> Any:
    async with asyncio.timeout(60):
        return await layer.receive(channel)


async def pass_on(sender: Any, receiver: Any, channel: str) -> None:
    """Returns when a message to the group reaches the channel; Redis may come back meanwhile."""

    async def repeat() -> None:
        while True:
            with suppress(RedisFailed):
                await sender.group_send("g", HELLO)
            await asyncio.sleep(0.01)

    repeating = asyncio.create_task(repeat())
    assert await received(receiver, channel) == HELLO
    repeating.cancel()


async def send_for_ever(sender: RedisLayer) -> None:
    while True:
        await sender.group_send("g", HELLO)


async def test_a_message_reaches_the_channel_and_all_members_of_the_group(url: str) -> None:
    here, there = layer_at(url), layer_at(url)
    one, two, three = [await layer.new_channel() for layer in (here, there, there)]
    for layer, channel in ((here, one), (there, two), (there, three)):
        await layer.group_add("g", channel)

    await here.send(two, {"type": "to one"})
    await here.group_send("g", HELLO)

    assert await received(there, two) == {"type": "to one"}
    for layer, channel in ((here, one), (there, two), (there, three)):
        assert await received(layer, channel) == HELLO


async def test_messages_arrive_in_order_and_large_ones_too(url: str) -> None:
    here, there = layer_at(url), layer_at(url)
    channel = await there.new_channel()
    sent = [{"type": "m", "text": "x" * size} for size in (0, 3_000_000, 1, 200_000, 2)]
    await asyncio.gather(*(here.send(channel, message) for message in sent))
    assert [await received(there, channel) for _ in sent] == sent


async def test_a_member_that_has_left_and_another_prefix_get_nothing(url: str) -> None:
    here, there, foreign = layer_at(url), layer_at(url), layer_at(url, prefix="other")
    channel, other = await there.new_channel(), await foreign.new_channel()
    await there.group_add("g", channel)
    await foreign.group_add("g", other)
    await there.group_discard("g", channel)
    await here.group_send("g", HELLO)
    await here.send(channel, {"type": "last"})
    await here.send(other, {"type": "last"})
    assert await received(there, channel) == {"type": "last"}
    assert await received(foreign, other) == {"type": "last"}


async def test_a_channel_ends_with_the_task_that_receives_from_it(url: str) -> None:
    here = layer_at(url)
    channel = await here.new_channel()
    await here.group_add("g", channel)
    receiving = asyncio.create_task(here.receive(channel))
    await asyncio.sleep(0)
    receiving.cancel()
    await asyncio.wait([receiving])
    link = await RedisServer.from_url(url).connect(lambda _name, _data: None)
    async with asyncio.timeout(60):
        while await link.call("PUBSUB", "CHANNELS"):
            await asyncio.sleep(0.01)
    link.close()


@pytest.mark.parametrize("is_ours_first", [True, False])
async def test_processes_of_earlier_releases_understand_each_other(
    url: str, is_ours_first: bool
) -> None:
    layers: list[Any] = [layer_at(url), RedisPubSubChannelLayer(hosts=[url], prefix="test")]
    sender, receiver = layers if is_ours_first else reversed(layers)
    channel = await receiver.new_channel()
    await receiver.group_add("g", channel)
    await pass_on(sender, receiver, channel)
    await sender.send(channel, {"type": "alone"})
    while (message := await received(receiver, channel)) == HELLO:
        pass
    assert message == {"type": "alone"}
    await layers[1].flush()


async def test_subscriptions_return_after_a_restart_of_redis(redis: Redis, url: str) -> None:
    here, there = layer_at(url), layer_at(url)
    channel = await there.new_channel()
    await there.group_add("g", channel)
    await pass_on(here, there, channel)
    redis.end()
    with pytest.raises(RedisFailed):
        await send_for_ever(here)
    with pytest.raises(RedisFailed):
        await here.new_channel()
    redis.start()
    await pass_on(here, there, channel)


async def test_a_silent_connection_is_given_up_and_replaced(url: str) -> None:
    address = urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    proxy = TcpProxy(address.hostname, address.port)
    there = layer_at(f"redis://127.0.0.1:{proxy.port}")
    channel = await there.new_channel()
    await there.group_add("g", channel)
    proxy.set_mode(Mode.SILENT)
    async with asyncio.timeout(60):
        with pytest.raises(RedisFailed, match="the connection was lost"):
            await there.group_send("g", HELLO)
        with pytest.raises(RedisFailed):
            await there.group_add("h", channel)
    proxy.set_mode(Mode.PASS)
    await pass_on(there, there, channel)
    proxy.close()


async def test_a_password_is_sent_and_required(url: str) -> None:
    server = RedisServer.from_url(url)
    link = await server.connect(lambda _name, _data: None)
    await link.call("CONFIG", "SET", "requirepass", "secret")
    address = urlsplit(url).netloc
    for refused in (url, f"redis://:wrong@{address}", f"redis://nobody:secret@{address}"):
        with pytest.raises(RedisFailed, match=r"NOAUTH|WRONGPASS"):
            await layer_at(refused).new_channel()
    for accepted in (f"redis://:secret@{address}", f"redis://default:secret@{address}"):
        here = layer_at(accepted)
        channel = await here.new_channel()
        await here.send(channel, HELLO)
        assert await received(here, channel) == HELLO
    link.close()


def test_connections_end_with_their_loop(url: str) -> None:
    layer = layer_at(url)

    async def once() -> None:
        channel = await layer.new_channel()
        await layer.send(channel, HELLO)
        assert await received(layer, channel) == HELLO

    for _ in range(3):
        asyncio.run(once())

    async def clients() -> bytes:
        link = await RedisServer.from_url(url).connect(lambda _name, _data: None)
        try:
            listed: bytes = await link.call("CLIENT", "LIST")
        finally:
            link.close()
        return listed

    assert asyncio.run(clients()).count(b"\n") == 1  # who asks
