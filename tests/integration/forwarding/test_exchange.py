"""Requests and answers over the channel layer, without views."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from channels.layers import get_channel_layer
from typing_extensions import override

from crushsite.forwarding.exchange import (
    AT_ONCE,
    SENT_AT_ONCE,
    ExpectedAnswer,
    RequestReceiver,
    RequestSender,
    group_of,
)
from crushsite.forwarding.messages import BadMessage, ForwardedAnswer, ForwardedRequest
from tests.doubles.joined_layer import JOINED_LAYER, JoinedLayer
from workspaces.access import OWNER
from workspaces.log.errors import Refusal
from workspaces.log.ids import new_id
from workspaces.log.timestamps import now_ms

SLOW_LAYER = {"default": {"BACKEND": f"{__name__}.SlowLayer"}}


class SlowLayer(JoinedLayer):
    """Sends a message when it may, and counts those that it is sending."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.may_send = asyncio.Event()
        self.sending = self.most_sending = 0

    @override
    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        self.sending += 1
        self.most_sending = max(self.most_sending, self.sending)
        await self.may_send.wait()
        self.sending -= 1
        await super().group_send(group, message)


class Exchange:
    """A sender and a worker, whose view answers when it may."""

    def __init__(self) -> None:
        self.sender = RequestSender()
        self.worker = new_id()
        self.receiver = RequestReceiver(lambda: self.worker, self._perform, _refuse)
        self.may_answer = asyncio.Event()
        self.performed: list[str] = []
        self.headers: tuple[tuple[str, str], ...] = ()

    async def request(self, worker: str = "", **fields: Any) -> ForwardedRequest:
        usual: dict[str, Any] = {
            "id": new_id(),
            "worker": worker or self.worker,
            "answer_to": await self.sender.channel(),
            "expires_at": now_ms() + 60_000,
            "method": "GET",
            "path": "/v1/workspaces/w/config",
            "query": "",
            "headers": (),
            "identity": OWNER,
            "address": "",
            "is_tool": False,
            "client_id": "",
        }
        return ForwardedRequest(**usual | fields)

    async def send(self) -> ExpectedAnswer:
        return await self.sender.send(await self.request())

    async def _perform(self, request: ForwardedRequest) -> ForwardedAnswer:
        self.performed.append(request.id)
        await self.may_answer.wait()
        return ForwardedAnswer(request.id, 200, self.headers)


def _refuse(request: ForwardedRequest, refusal: Refusal) -> ForwardedAnswer:
    return ForwardedAnswer(request.id, refusal.status, (), refusal.sentence.encode())


@pytest_asyncio.fixture
async def exchange(settings: Any) -> AsyncIterator[Exchange]:
    settings.CHANNEL_LAYERS = JOINED_LAYER
    exchange = Exchange()
    await exchange.receiver.start()
    yield exchange
    exchange.may_answer.set()
    await exchange.receiver.stop()
    await exchange.sender.stop()


async def test_a_worker_accepts_a_request_before_it_answers(exchange: Exchange) -> None:
    first = await exchange.send()
    assert not first.is_accepted
    async with asyncio.timeout(30):
        while not first.is_accepted:
            await asyncio.sleep(0.01)
        assert not first.answer.done()
        exchange.may_answer.set()
        assert (await first.answer).status == 200


async def test_a_worker_at_its_limit_refuses_requests(exchange: Exchange) -> None:
    expected = [await exchange.send() for _ in range(AT_ONCE)]
    async with asyncio.timeout(30):
        refused = await (await exchange.send()).answer
    assert (refused.status, b"too many requests" in refused.body) == (503, True)
    exchange.may_answer.set()
    assert {(await each.answer).status for each in expected} == {200}
    assert len(exchange.performed) == AT_ONCE


@pytest.mark.parametrize("value", ["tab\there", "é"])
async def test_an_answer_that_cannot_be_sent_is_an_error(exchange: Exchange, value: str) -> None:
    exchange.headers = (("etag", value),)
    exchange.may_answer.set()
    async with asyncio.timeout(30):
        answer = await (await exchange.send()).answer
    assert (answer.status, b"Its log has the reason" in answer.body) == (500, True)


@pytest.mark.parametrize(
    "wrong", [{"headers": (("accept", "a\tb"),)}, {"query": "x" * 20_000}, {"path": "x" * 20_000}]
)
async def test_a_request_that_no_worker_accepts_is_not_sent(
    exchange: Exchange, wrong: dict[str, Any]
) -> None:
    with pytest.raises(BadMessage):
        await exchange.sender.send(await exchange.request(**wrong))
    exchange.may_answer.set()
    await (await exchange.send()).answer
    assert len(exchange.performed) == 1


async def test_a_recorded_request_is_performed_by_no_other_worker(exchange: Exchange) -> None:
    layer: Any = get_channel_layer()
    recorder = await layer.new_channel()
    await layer.group_add(group_of("former"), recorder)
    await exchange.sender.send(await exchange.request("former"))
    recorded = await layer.receive(recorder)
    await layer.group_send(group_of(exchange.worker), recorded)

    # Registered once more, a worker has another id.
    sent = await exchange.request()
    exchange.worker += ".2"
    await exchange.sender.send(sent)
    exchange.may_answer.set()
    last = await exchange.send()
    assert (await last.answer).status == 200
    assert exchange.performed == [(await last.answer).id]


async def test_few_messages_are_sent_at_once(settings: Any) -> None:
    settings.CHANNEL_LAYERS = SLOW_LAYER
    layer: Any = get_channel_layer()
    exchange = Exchange()
    exchange.may_answer.set()
    await exchange.receiver.start()
    sending = [asyncio.create_task(exchange.send()) for _ in range(3 * SENT_AT_ONCE)]
    while layer.sending < SENT_AT_ONCE:
        await asyncio.sleep(0.01)
    layer.may_send.set()
    for each in await asyncio.gather(*sending):
        assert (await each.answer).status == 200
    assert layer.most_sending == SENT_AT_ONCE
    await exchange.receiver.stop()
    await exchange.sender.stop()
