"""How large a body may be: the guard counts it, and refuses the rest."""

from __future__ import annotations

import json

import pytest

from crushsite.asgi.guard import MAX_BODY_BYTES, Guard
from tests.unit.asgi.guarded import Echo, call, headers_of, status_of

HOST = ("Host", "localhost")


@pytest.mark.parametrize(
    ("length", "status"),
    [
        ("0", 200), ("100", 200), ("101", 413), ("9" * 50, 413), ("9" * 5_000, 413),
        ("", 400), ("-1", 400), ("+1", 400), ("1x", 400), ("1, 1", 400), (" 1", 400), ("\u00b2", 400),
    ],
)  # fmt: skip
async def test_it_refuses_by_the_announced_length(length, status):
    headers = [HOST, ("Content-Length", length)]
    assert await status_of(headers, method="POST", max_body_bytes=100) == status


async def test_it_names_the_limit():
    guard = Guard(Echo())
    headers = [HOST, ("Content-Length", str(MAX_BODY_BYTES + 1))]
    _, body = await call(guard, headers, method="POST")
    assert str(MAX_BODY_BYTES) in json.loads(body["body"])["message"]


@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ([b"a" * 100], 200),
        ([b"a" * 50, b"a" * 50, b""], 200),
        ([b"a" * 101], 413),
        ([b"a" * 50, b"a" * 50, b"a"], 413),
        ([b"a"] * 101, 413),
    ],
)
async def test_it_counts_a_body_of_unknown_length(body, status, method):
    assert await status_of([HOST], method=method, body=body, max_body_bytes=100) == status


async def test_it_stops_reading_at_the_limit():
    waiting = [{"type": "http.request", "body": b"a" * 60, "more_body": True}] * 50
    left = list(waiting)

    async def receive():
        return left.pop()

    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "headers": headers_of([HOST])}
    await Guard(Echo(), max_body_bytes=100)(scope, receive, send)
    assert len(left) == 48
    assert sent[0]["status"] == 413


async def swallows(scope, receive, send):
    for _ in range(3):
        try:
            await receive()
        except Exception:
            continue
    await send({"type": "http.response.start", "status": 500, "headers": []})
    await send({"type": "http.response.body", "body": b"oops"})


async def translates(scope, receive, send):
    try:
        await receive()
    except Exception as error:
        raise RuntimeError from error


@pytest.mark.parametrize("app", [swallows, translates])
async def test_its_refusal_stands_whatever_the_application_makes_of_it(app):
    sent = await call(Guard(app, max_body_bytes=1), [HOST], method="POST", body=[b"aa"])
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 413
    assert b"limit" in sent[1]["body"]


async def test_an_answer_that_has_begun_is_broken_off():
    async def early(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        await receive()

    with pytest.raises(Exception, match="larger than the limit"):
        await call(Guard(early, max_body_bytes=1), [HOST], method="POST", body=[b"aa"])
