"""The contract that every provider keeps, against what it was recorded to say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from agents.llm.assembly import ReplyAssembly
from agents.llm.contract import ModelEvent, Stopped, Usage
from agents.llm.errors import (
    BrokenStream,
    ContextExhausted,
    ModelError,
    Overloaded,
    RateLimited,
    WrongKey,
)
from agents.llm.retries import delay_before_retry
from agents.llm.usage import cost_of
from agents.turn.transcript import TurnMessage
from tests.doubles.conversation import request, tool, user
from tests.doubles.recorded_provider import RecordedProvider
from tests.integration.llm.subjects import KEY, SUBJECTS, Subject
from workspaces.log.parts import (
    Parts,
    Reasoning,
    Role,
    ToolResult,
    plain_text,
    tool_calls,
)


@pytest.fixture(params=SUBJECTS, ids=lambda subject: subject.id)
def subject(request: pytest.FixtureRequest) -> Subject:
    told: Subject = request.param
    return told


@pytest.fixture
async def server() -> AsyncIterator[RecordedProvider]:
    async with RecordedProvider() as server:
        yield server


async def listen(
    subject: Subject, server: RecordedProvider, heard: list[ModelEvent], *messages: TurnMessage
) -> None:
    asked = request(*(messages or (user("hi"),)), model=subject.info, think=True)
    async for batch in subject.provider(server).stream(asked):
        heard += batch


async def say(subject: Subject, server: RecordedProvider, name: str) -> tuple[Parts, Stopped]:
    server.answers = [subject.recorded(name)]
    heard: list[ModelEvent] = []
    await listen(subject, server, heard)
    return parts_of(heard), stop_of(heard)


def parts_of(heard: list[ModelEvent]) -> Parts:
    assembly = ReplyAssembly()
    for event in heard:
        assembly.apply(event)
    return assembly.parts()


def stop_of(heard: list[ModelEvent]) -> Stopped:
    last = heard[-1]
    assert isinstance(last, Stopped)
    assert not any(isinstance(event, Stopped) for event in heard[:-1])
    return last


@pytest.mark.parametrize("name", ["words", "tools", "reasoning", "refusal"])
async def test_a_recorded_reply_is_understood_to_the_last_token(
    subject: Subject, server: RecordedProvider, name: str
) -> None:
    parts, stopped = await say(subject, server, name)
    expected = subject.expected(name)
    assert plain_text(parts) == expected["text"]
    thoughts = [part for part in parts if isinstance(part, Reasoning)]
    assert "".join(part.thinking for part in thoughts) == expected.get("thinking", "")
    calls = [(call.name, call.input) for call in tool_calls(parts)]
    assert calls == [tuple(call) for call in expected.get("calls", [])]
    assert all(call.finished for call in tool_calls(parts))
    assert len({call.id for call in tool_calls(parts)}) == len(calls)
    assert stopped.reason.value == expected["reason"]
    assert stopped.usage == Usage(*expected["usage"])
    assert cost_of(stopped.usage, subject.info) == float(expected["cost"])


async def test_it_is_asked_at_its_address_with_its_key(
    subject: Subject, server: RecordedProvider
) -> None:
    await say(subject, server, "words")
    (asked,) = server.requests
    name, value = subject.key
    assert asked.method == "POST"
    assert asked.target == subject.target
    assert asked.headers[name] == value
    assert KEY not in asked.raw.decode()


def reply_of(subject: Subject, parts: Parts, *, provider: str = "", model: str = "") -> TurnMessage:
    return TurnMessage("a1", Role.ASSISTANT, parts, model or subject.model, provider or subject.id)


@pytest.mark.parametrize("name", ["words", "tools", "reasoning"])
async def test_what_was_kept_goes_back_to_the_model_that_made_it_and_to_no_other(
    subject: Subject, server: RecordedProvider, name: str
) -> None:
    parts, _ = await say(subject, server, name)
    kept = subject.expected(name).get("kept", "")
    results = tool(*(ToolResult(call.id, call.name, "12231") for call in tool_calls(parts)))
    for provider, returns in ((subject.id, bool(kept)), ("another", False)):
        server.answers = [subject.recorded("words")]
        reply = reply_of(subject, parts, provider=provider)
        await listen(subject, server, [], user("hi"), reply, results)
        assert bool(kept and kept in server.requests[-1].raw.decode()) is returns, provider


async def test_the_results_of_parallel_calls_go_back_with_their_ids(
    subject: Subject, server: RecordedProvider
) -> None:
    parts, _ = await say(subject, server, "tools")
    calls = tool_calls(parts)
    results = tool(*(ToolResult(call.id, call.name, f"result {call.name}") for call in calls))
    server.answers = [subject.recorded("words")]
    heard: list[ModelEvent] = []
    await listen(subject, server, heard, user("hi"), reply_of(subject, parts), results)
    sent = server.requests[-1].raw.decode()
    assert sent.index("result bash") < sent.index("result view")
    assert all(sent.count(call.id) == 2 for call in calls)
    assert plain_text(parts_of(heard)) == subject.expected("words")["text"]


@pytest.mark.parametrize("ending", ["cut", "quiet"])
async def test_a_reply_that_breaks_off_is_tried_again(
    subject: Subject, server: RecordedProvider, ending: str
) -> None:
    events = subject.events("words")
    half = subject.answer(events[: len(events) // 2], done=False)
    server.answers = [replace(half, is_cut=ending == "cut")]
    heard: list[ModelEvent] = []
    with pytest.raises(BrokenStream) as caught:
        await listen(subject, server, heard)
    assert plain_text(parts_of(heard)).startswith(subject.expected("words")["text"][:3])
    assert delay_before_retry(caught.value, 1, lambda: 0.0) is not None


async def test_an_overload_in_the_middle_is_tried_again(
    subject: Subject, server: RecordedProvider
) -> None:
    server.answers = [subject.recorded("overloaded")]
    heard: list[ModelEvent] = []
    with pytest.raises(Overloaded) as caught:
        await listen(subject, server, heard)
    assert plain_text(parts_of(heard)) == subject.expected("words")["text"][:3]
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("name", "expected"),
    [("rate_limited", RateLimited), ("wrong_key", WrongKey), ("window", ContextExhausted)],
)
async def test_each_refusal_is_one_error(
    subject: Subject, server: RecordedProvider, name: str, expected: type[ModelError]
) -> None:
    server.answers = [subject.refused(name)]
    with pytest.raises(ModelError) as caught:
        await listen(subject, server, [])
    assert type(caught.value) is expected
    assert KEY not in repr(caught.value)
    if name == "rate_limited":
        assert caught.value.retry_after == 7.0
        assert delay_before_retry(caught.value, 1, lambda: 0.0) == 7.25
    else:
        assert delay_before_retry(caught.value, 1, lambda: 0.0) is None


@pytest.mark.parametrize("noise", [b"data: {\n\n", b"\x00" * 64, b"data: [1]\n\n", b"\xff" * 4096])
async def test_noise_is_a_broken_stream(
    subject: Subject, server: RecordedProvider, noise: bytes
) -> None:
    answer = subject.recorded("words")
    server.answers = [replace(answer, pieces=[*answer.pieces[:1], noise])]
    with pytest.raises(BrokenStream):
        await listen(subject, server, [])
