"""A prompt that got no answer stays a turn of its own, on the wire of every provider."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from agents.llm.contract import ModelRequest
from agents.llm.wires import anthropic, gemini, openai, responses
from agents.runs.conversation import CANCELLED_NOTE, FAILED_NOTE, with_note
from tests.doubles.conversation import assistant, request, user
from workspaces.log.parts import Finish, FinishReason, Part, Reasoning, Text, ToolCall

ENCODERS: dict[str, Callable[[ModelRequest], dict[str, Any]]] = {
    "openai": openai.encode,
    "anthropic": anthropic.encode,
    "responses": responses.encode,
    "gemini": gemini.encode,
}


@pytest.mark.parametrize(
    ("reason", "note"),
    [(FinishReason.CANCELED, CANCELLED_NOTE), (FinishReason.ERROR, FAILED_NOTE)],
)
@pytest.mark.parametrize("said", [(), (Reasoning("hm", "sig"),), (Text("  "),)])
@pytest.mark.parametrize("name", ENCODERS)
def test_a_prompt_without_an_answer_does_not_merge_with_the_next(
    name: str, said: tuple[Part, ...], reason: FinishReason, note: str
) -> None:
    cut = with_note(assistant(*said, Finish(reason)))
    body = ENCODERS[name](request(user("delete all"), cut, user("hello")))
    turns = body.get("messages") or body.get("input") or body["contents"]
    turns = [turn for turn in turns if turn["role"] not in {"system", "developer"}]
    roles = [turn["role"].replace("model", "assistant") for turn in turns]
    assert roles == ["user", "assistant", "user"]
    first, middle, last = (orjson.dumps(turn).decode() for turn in turns)
    assert "delete all" in first
    assert note in middle
    assert "hello" in last


@pytest.mark.parametrize(
    "said", [Text("half a sen"), ToolCall("a", "bash", "{}", finished=True)], ids=["words", "call"]
)
def test_what_a_reply_said_before_it_was_cut_stays(said: Part) -> None:
    cut = assistant(said, Finish(FinishReason.CANCELED))
    assert with_note(cut) is cut


def test_a_regular_end_without_words_gets_no_note() -> None:
    ended = assistant(Finish(FinishReason.END_TURN))
    assert with_note(ended) is ended
