"""An advance's durable effects as one write. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

from agents.config.settings import ModelChoice
from agents.runs.step import ReplyStart, ReplyWrite, Step
from agents.tools.contract import FileMark
from agents.turn.effects import (
    CallModel,
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
from workspaces.log.parts import FinishReason, ToolResult


def step_of(  # noqa: C901  a case an effect
    effects: Iterable[Effect],
    *,
    choice: ModelChoice | None,
    results: Mapping[str, ToolResult],
    reads: Mapping[str, Mapping[str, FileMark]],
    only_reading: Container[str],
    reply_write: Callable[[FinishReason], ReplyWrite | None],
) -> Step | None:
    """``None`` where nothing is to be written. ``choice``: the model, if one can be had.

    ``reads``: the files that calls have read. ``only_reading``: calls that may be begun
    again after a crash, so nothing is written when they begin.
    """
    reply: ReplyWrite | None = None
    given: list[ToolResult] = []
    refusals: dict[str, str] = {}
    begins: list[str] = []
    start: ReplyStart | None = None
    end: End | None = None
    parks = releases = False
    for effect in effects:
        match effect:
            case SaveReply():
                reply = reply_write(effect.reason)
            case SaveResult():
                given.append(results[effect.call_id])
            case GiveResult(call_id, content):
                known = results.get(call_id)
                if known is not None:  # it came to its end just before the cancel
                    given.append(known)
                else:
                    refusals[call_id] = content
            case RunTool(call_id):
                if call_id not in only_reading:
                    begins.append(call_id)
            case CallModel() if choice is not None:
                start = ReplyStart(choice.model, choice.provider, fold=effect.fold)
            case Summarise() if choice is not None:
                start = ReplyStart(choice.model, choice.provider, is_summary=True)
            case Park():
                parks = True
            case Release():
                releases = True
            case End():
                end = effect
            case _:
                pass
    if not any((reply, given, refusals, begins, start, parks, releases, end)):
        return None
    return Step(
        reply,
        given,
        refusals,
        begins,
        start,
        parks=parks,
        releases=releases,
        end=end,
        model=choice.model if choice is not None else "",
        provider=choice.provider if choice is not None else "",
        reads={
            path: mark
            for result in given
            for path, mark in reads.get(result.tool_call_id, {}).items()
        },
    )
