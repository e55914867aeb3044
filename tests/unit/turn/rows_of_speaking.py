"""Rows of the turn's table: nothing begun, and the model speaks."""

from __future__ import annotations

from dataclasses import replace

from agents.states import RunOutcome
from agents.turn.effects import AbortWork, CallModel, CheckCall, End, Release, SaveReply
from agents.turn.inputs import (
    Allowed,
    Answered,
    AnswerNeeded,
    Begun,
    CancelSeen,
    Denied,
    HandOver,
    Replied,
    ReplyFailed,
    RequestedCall,
    ToolEnded,
)
from agents.turn.state import Phase
from tests.unit.turn.turns import (
    CALLING,
    CANCELLED,
    FRESH,
    LATER,
    REPLIED_STOP,
    J,
    Row,
    W,
    one,
)
from workspaces.log.parts import FinishReason

SPEAKING: dict[str, Row] = {
    # -- nothing begun
    "fresh, begun": (FRESH, Begun(), (CallModel(fold=False),), Phase.CALLING, {}),
    "fresh, cancelled": (FRESH, CancelSeen(), (AbortWork(), CANCELLED), Phase.ENDED, {}),
    "fresh, handed over": (FRESH, HandOver(), (Release(),), Phase.ENDED, {}),
    "fresh, replied": (FRESH, REPLIED_STOP, (), Phase.FRESH, {}),
    "fresh, reply failed": (FRESH, ReplyFailed("x"), (), Phase.FRESH, {}),
    "fresh, allowed": (FRESH, Allowed("a"), (), Phase.FRESH, {}),
    "fresh, answer needed": (FRESH, AnswerNeeded("a"), (), Phase.FRESH, {}),
    "fresh, denied": (FRESH, Denied("a"), (), Phase.FRESH, {}),
    "fresh, tool ended": (FRESH, ToolEnded("a", ""), (), Phase.FRESH, {}),
    # -- the model speaks
    "calling, begun again": (CALLING, Begun(), (), Phase.CALLING, {}),
    "calling, stopped": (
        CALLING,
        REPLIED_STOP,
        (SaveReply(FinishReason.END_TURN), End(RunOutcome.COMPLETED)),
        Phase.ENDED,
        {},
    ),
    "calling, out of tokens": (
        CALLING,
        Replied(FinishReason.MAX_TOKENS),
        (SaveReply(FinishReason.MAX_TOKENS), End(RunOutcome.COMPLETED)),
        Phase.ENDED,
        {},
    ),
    "calling, a tool use without calls": (
        CALLING,
        Replied(FinishReason.TOOL_USE),
        (SaveReply(FinishReason.END_TURN), End(RunOutcome.COMPLETED)),
        Phase.ENDED,
        {},
    ),
    "calling, one call": (
        CALLING,
        Replied(FinishReason.TOOL_USE, (one("a"),)),
        (SaveReply(FinishReason.TOOL_USE), CheckCall("a")),
        Phase.TOOLS,
        {"a": J},
    ),
    "calling, calls whatever the reason": (
        CALLING,
        Replied(FinishReason.END_TURN, (one("a"),)),
        (SaveReply(FinishReason.TOOL_USE), CheckCall("a")),
        Phase.TOOLS,
        {"a": J},
    ),
    "calling, two calls one after the other": (
        CALLING,
        Replied(FinishReason.TOOL_USE, (one("a"), one("b"))),
        (SaveReply(FinishReason.TOOL_USE), CheckCall("a")),
        Phase.TOOLS,
        {"a": J, "b": W},
    ),
    "calling, two calls beside each other, one behind": (
        CALLING,
        Replied(
            FinishReason.TOOL_USE, (one("A", parallel=True), one("B", parallel=True), one("c"))
        ),
        (SaveReply(FinishReason.TOOL_USE), CheckCall("A"), CheckCall("B")),
        Phase.TOOLS,
        {"A": J, "B": J, "c": W},
    ),
    "calling, two calls of which nothing is said": (
        CALLING,
        Replied(
            FinishReason.TOOL_USE,
            (RequestedCall("a", "view", "{}"), RequestedCall("b", "view", "{}")),
        ),
        (SaveReply(FinishReason.TOOL_USE), CheckCall("a")),
        Phase.TOOLS,
        {"a": J, "b": W},
    ),
    "calling, two parallel calls with another between them": (
        CALLING,
        Replied(
            FinishReason.TOOL_USE, (one("A", parallel=True), one("b"), one("C", parallel=True))
        ),
        (SaveReply(FinishReason.TOOL_USE), CheckCall("A")),
        Phase.TOOLS,
        {"A": J, "b": W, "C": W},
    ),
    "calling, a parallel call behind another": (
        CALLING,
        Replied(FinishReason.TOOL_USE, (one("a"), one("B", parallel=True))),
        (SaveReply(FinishReason.TOOL_USE), CheckCall("a")),
        Phase.TOOLS,
        {"a": J, "B": W},
    ),
    "calling, failed": (
        CALLING,
        ReplyFailed("no key"),
        (
            SaveReply(FinishReason.ERROR),
            End(RunOutcome.FAILED, FinishReason.ERROR, "no key", "no key"),
        ),
        Phase.ENDED,
        {},
    ),
    "calling, cancelled": (
        CALLING,
        CancelSeen(),
        (AbortWork(), SaveReply(FinishReason.CANCELED), CANCELLED),
        Phase.ENDED,
        {},
    ),
    "calling again, cancelled": (
        LATER,
        CancelSeen(),
        (AbortWork(), SaveReply(FinishReason.CANCELED), CANCELLED),
        Phase.ENDED,
        {},
    ),
    "calling, handed over": (CALLING, HandOver(), (), Phase.CALLING, {}),
    "calling, handed over, one call": (
        replace(CALLING, hands_over=True),
        Replied(FinishReason.TOOL_USE, (one("a"),)),
        (SaveReply(FinishReason.TOOL_USE), Release()),
        Phase.ENDED,
        {"a": W},
    ),
    "calling, handed over, stopped": (
        replace(CALLING, hands_over=True),
        REPLIED_STOP,
        (SaveReply(FinishReason.END_TURN), End(RunOutcome.COMPLETED)),
        Phase.ENDED,
        {},
    ),
    "calling, a late tool": (LATER, ToolEnded("a", ""), (), Phase.CALLING, {}),
    "calling, a late answer": (LATER, Allowed("a"), (), Phase.CALLING, {}),
    "calling, a late no": (LATER, Denied("a"), (), Phase.CALLING, {}),
    "calling, a late question": (LATER, AnswerNeeded("a"), (), Phase.CALLING, {}),
    "fresh, answered": (FRESH, Answered("a"), (), Phase.FRESH, {}),
    "calling, a late answer to what it waited for": (LATER, Answered("a"), (), Phase.CALLING, {}),
}
