"""What the wires' readers make of the bytes of a stream."""

from collections.abc import Callable

import orjson
import pytest

from tests.bench.watch import Watch
from tests.bench.wires import crush_native, crush_v1, opencode

_STAMP = "@1790000000000000 "
_AT = 1_790_000_000.001


def _v1(kind: str, payload: dict[str, object]) -> bytes:
    return b"data: %s\n\n" % orjson.dumps(
        {"type": kind, "payload": {"type": "updated", "payload": payload}}
    )


def _message(words: int) -> bytes:
    parts = [{"type": "text", "data": {"text": _STAMP * words}}]
    return _v1("message", {"id": "m", "role": "assistant", "session_id": "s", "parts": parts})


def _complete(words: int) -> bytes:
    return _v1("run_complete", {"session_id": "s", "message_id": "m", "text": _STAMP * words})


@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_v1_counts_words_and_sees_the_end(size: int) -> None:
    watch = Watch()
    _feed(crush_v1._sampled(watch), _message(1) + b"\n" + _message(3) + _complete(3), size)
    assert watch.lags_ms == pytest.approx([1, 1, 1], abs=0.01)
    assert watch.done == {"s": _AT}


@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_v1_counts_at_the_end_when_it_is_not_sampled(size: int) -> None:
    watch = Watch()
    _feed(crush_v1._at_the_end(watch), _message(1) + _message(3) + _complete(3), size)
    assert (watch.words, watch.lags_ms) == ({"s": 3}, [])
    assert watch.done == {"s": _AT}


async def test_native_maps_deltas_to_their_session_and_counts_no_final_text() -> None:
    watch = Watch()
    receive = crush_native._reader(watch)
    message, run = {"message": {"session_id": "s"}}, {"run": {"session_id": "s"}}
    started = {"number": 4, "type": "message.started", "data": message}
    finished = {"number": 5, "type": "message.finished", "data": {**message, "text": _STAMP}}
    ended = {"number": 6, "type": "run.finished", "data": run}
    receive(orjson.dumps([started, [4, 0, 0, _STAMP, "text"], [4, 0, 18, _STAMP * 2]]), _AT)
    receive(orjson.dumps([finished, ended]), _AT)
    assert watch.words == {"s": 3}
    assert watch.done == {"s": _AT}


async def test_opencode_joins_a_word_cut_between_two_deltas() -> None:
    watch = Watch()
    events = [
        {"type": "message.part.delta", "properties": _delta(_STAMP + _STAMP[:9])},
        {"type": "message.part.delta", "properties": _delta(_STAMP[9:])},
        {"type": "message.part.updated", "properties": {"part": _part(_STAMP * 2)}},
        {"type": "session.idle", "properties": {"sessionID": "s"}},
    ]
    _feed(opencode._reader(watch), b"".join(b"data: %s\n\n" % orjson.dumps(e) for e in events), 50)
    assert watch.words == {"s": 2}
    assert watch.done == {"s": _AT}


def _delta(text: str) -> dict[str, str]:
    return {"sessionID": "s", "messageID": "m", "field": "text", "delta": text}


def _part(text: str) -> dict[str, str]:
    return {"type": "text", "sessionID": "s", "messageID": "m", "text": text}


def _feed(receive: Callable[[bytes, float], None], data: bytes, size: int) -> None:
    for start in range(0, len(data), size):
        receive(data[start : start + size], _AT)
