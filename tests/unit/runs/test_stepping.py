"""An advance's durable effects as one write."""

from __future__ import annotations

from typing import Any

import pytest

from agents.config.settings import ModelChoice
from agents.runs.steps import ReplyStart, ReplyWrite, Step, step_of
from agents.states import CutRule, RunOutcome
from agents.tools.contract import FileMark
from agents.turn.effects import (
    AbortWork,
    CallModel,
    CheckCall,
    Effect,
    End,
    GiveResult,
    Park,
    Release,
    RunTool,
    SaveReply,
    SaveResult,
    Summarise,
)
from workspaces.log.parts import FinishReason, Text, ToolResult

CHOICE = ModelChoice("fake", "fake-large")
ON_ITS_WAY = (Text("so far"),)
RULES = {"a": CutRule.REPORT, "b": CutRule.REPORT}


def reply_write(reason: FinishReason) -> ReplyWrite:
    return ReplyWrite("m1", ON_ITS_WAY, reason)


def written(*effects: Effect, **more: Any) -> Step | None:
    more = {
        "choice": CHOICE,
        "results": {},
        "reads": {},
        "cut_rules": RULES,
        "reply_write": reply_write,
        **more,
    }
    return step_of(effects, **more)


def step(**fields: Any) -> Step:
    named = {"model": "fake-large", "provider": "fake", "results": [], "begins": {}, **fields}
    return Step(**named)


@pytest.mark.parametrize(
    "effects", [(), (CheckCall("a"),), (AbortWork(),), (CheckCall("a"), CheckCall("b"))]
)
def test_what_is_not_durable_writes_nothing(effects: tuple[Effect, ...]) -> None:
    assert written(*effects) is None


def test_a_reply_is_written_with_the_reason_of_its_effect() -> None:
    told = written(SaveReply(FinishReason.MAX_TOKENS))

    assert told == step(reply=ReplyWrite("m1", ON_ITS_WAY, FinishReason.MAX_TOKENS))


def test_without_a_reply_on_its_way_there_is_nothing_to_save() -> None:
    assert written(SaveReply(FinishReason.ERROR), reply_write=lambda _: None) is None


def test_the_tools_result_is_written_whole() -> None:
    result = ToolResult("a", "ls", "out", metadata="{}", data="AA==", mime_type="image/png")

    told = written(SaveResult("a"), results={"a": result})

    assert told == step(results=[result])


def test_a_call_that_did_not_run_is_refused_in_words() -> None:
    told = written(GiveResult("a", "no"), GiveResult("b", "skipped"))

    assert told == step(refusals={"a": "no", "b": "skipped"})


def test_a_result_that_came_just_before_a_cancel_is_kept() -> None:
    result = ToolResult("a", "bash", "done")
    end = End(RunOutcome.CANCELLED, FinishReason.CANCELED, "note")

    told = written(
        AbortWork(),
        GiveResult("a", "cancelled"),
        GiveResult("b", "cancelled"),
        end,
        results={"a": result},
    )

    assert told == step(results=[result], refusals={"b": "cancelled"}, end=end)


def test_tools_that_start_are_named() -> None:
    assert written(RunTool("a"), RunTool("b")) == step(begins=RULES)


def test_calls_that_only_read_begin_without_a_word() -> None:
    assert written(RunTool("a"), cut_rules={"b": CutRule.ASK}) is None
    assert written(RunTool("a"), RunTool("b"), cut_rules={"b": CutRule.ASK}) == step(
        begins={"b": "ask"}
    )


def test_what_a_call_has_read_is_written_with_its_result() -> None:
    result = ToolResult("a", "view", "out")
    mark = FileMark(mtime_ns=5, size=3)
    reads = {"a": {"/p/one.txt": mark}, "b": {"/p/two.txt": mark}}

    told = written(SaveResult("a"), results={"a": result}, reads=reads)

    assert told == step(results=[result], reads={"/p/one.txt": mark})


def test_a_call_that_was_refused_has_read_nothing() -> None:
    reads = {"a": {"/p/one.txt": FileMark(5, 3)}}

    assert written(GiveResult("a", "no"), reads=reads) == step(refusals={"a": "no"})


@pytest.mark.parametrize("fold", [False, True])
def test_the_next_reply_is_begun_in_the_same_write(*, fold: bool) -> None:
    told = written(SaveReply(FinishReason.TOOL_USE), CallModel(fold))

    assert told is not None
    assert told.reply is not None
    assert told.start == ReplyStart("fake-large", "fake", fold=fold)


def test_a_summary_is_begun_as_one_and_takes_no_prompts_in() -> None:
    told = written(SaveReply(FinishReason.MAX_TOKENS), Summarise())

    assert told is not None
    assert told.start == ReplyStart("fake-large", "fake", is_summary=True)


@pytest.mark.parametrize("effect", [CallModel(fold=True), Summarise()])
def test_without_a_model_no_reply_is_begun(effect: Effect) -> None:
    assert written(effect, choice=None) is None


def test_a_result_is_written_also_where_no_model_can_be_asked() -> None:
    result = ToolResult("a", "ls", "out")

    told = written(SaveResult("a"), CallModel(fold=True), choice=None, results={"a": result})

    assert told == Step(results=[result], begins={})


def test_a_run_parks_with_the_result_of_its_neighbour() -> None:
    result = ToolResult("b", "ls", "out")

    assert written(SaveResult("b"), Park(), results={"b": result}) == step(
        results=[result], parks=True
    )


def test_a_run_is_given_up_with_what_it_saved() -> None:
    told = written(SaveReply(FinishReason.END_TURN), Release())

    assert told is not None
    assert (told.releases, told.parks, told.end) == (True, False, None)


def test_an_end_names_the_model_for_a_reply_that_only_holds_it() -> None:
    end = End(RunOutcome.FAILED, FinishReason.ERROR, "no key", "no key")

    assert written(end) == step(end=end)
    assert written(end, choice=None) == step(end=end, model="", provider="")
