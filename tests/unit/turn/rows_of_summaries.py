"""Rows of the turn's table: a summary is due, is being written, comes to its end."""

from __future__ import annotations

from dataclasses import replace

from agents.states import RunOutcome
from agents.turn.effects import AbortWork, CallModel, End, Release, SaveReply, SaveResult, Summarise
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
    ToolEnded,
)
from agents.turn.state import Phase, Turn
from tests.unit.turn.turns import (
    CALLING,
    CANCELLED,
    FRESH,
    LATER,
    REPLIED_STOP,
    R,
    Row,
    one,
    tools,
)
from workspaces.log.parts import FinishReason

SUMMARISING = Turn(phase=Phase.SUMMARISING, summary_step=0)
ALONE = replace(SUMMARISING, only_summarises=True)
RETRIES = replace(SUMMARISING, is_exhausted=True)
EXHAUSTED = ReplyFailed("too long", is_exhausted=True)
WRITTEN = SaveReply(FinishReason.END_TURN)
BROKEN = SaveReply(FinishReason.ERROR)


def failed(error: str) -> End:
    return End(RunOutcome.FAILED, FinishReason.ERROR, error, error)


SUMMARIES: dict[str, Row] = {
    # -- one is due
    "fresh and full, begun": (
        FRESH,
        Begun(is_full=True),
        (Summarise(),),
        Phase.SUMMARISING,
        {},
    ),
    "fresh, begun for a summary alone": (
        FRESH,
        Begun(only_summarises=True),
        (Summarise(),),
        Phase.SUMMARISING,
        {},
    ),
    "fresh and full, begun for a summary alone": (
        FRESH,
        Begun(is_full=True, only_summarises=True),
        (Summarise(),),
        Phase.SUMMARISING,
        {},
    ),
    "none left and full, begun": (
        tools(),
        Begun(is_full=True),
        (Summarise(),),
        Phase.SUMMARISING,
        {},
    ),
    "full, the last call ended": (
        replace(tools(("a", R)), is_full=True),
        ToolEnded("a", "out"),
        (SaveResult("a"), Summarise()),
        Phase.SUMMARISING,
        {},
    ),
    "full and handed over, the last call ended": (
        replace(tools(("a", R), hands_over=True), is_full=True),
        ToolEnded("a", "out"),
        (SaveResult("a"), Release()),
        Phase.ENDED,
        {},
    ),
    "full one reply behind a summary, the last call ended": (
        replace(tools(("a", R)), is_full=True, summary_step=0),
        ToolEnded("a", "out"),
        (SaveResult("a"), CallModel(fold=True)),
        Phase.CALLING,
        {},
    ),
    "full two replies behind a summary, the last call ended": (
        replace(tools(("a", R)), is_full=True, steps=2, summary_step=0),
        ToolEnded("a", "out"),
        (SaveResult("a"), Summarise()),
        Phase.SUMMARISING,
        {},
    ),
    "calling, a full reply that stops": (
        CALLING,
        Replied(FinishReason.END_TURN, is_full=True),
        (WRITTEN, End(RunOutcome.COMPLETED)),
        Phase.ENDED,
        {},
    ),
    # -- it does not fit
    "calling, exhausted": (
        CALLING,
        EXHAUSTED,
        (SaveReply(FinishReason.MAX_TOKENS), Summarise()),
        Phase.SUMMARISING,
        {},
    ),
    "calling right behind a summary, exhausted": (
        replace(LATER, summary_step=1),
        EXHAUSTED,
        (SaveReply(FinishReason.MAX_TOKENS), Summarise()),
        Phase.SUMMARISING,
        {},
    ),
    "calling and handed over, exhausted": (
        replace(CALLING, hands_over=True),
        EXHAUSTED,
        (SaveReply(FinishReason.MAX_TOKENS), Release()),
        Phase.ENDED,
        {},
    ),
    "calling for the retry, exhausted again": (
        replace(CALLING, is_exhausted=True),
        EXHAUSTED,
        (BROKEN, failed("too long")),
        Phase.ENDED,
        {},
    ),
    # -- it is being written
    "summarising, begun again": (SUMMARISING, Begun(), (), Phase.SUMMARISING, {}),
    "summarising, allowed": (SUMMARISING, Allowed("a"), (), Phase.SUMMARISING, {}),
    "summarising, answer needed": (SUMMARISING, AnswerNeeded("a"), (), Phase.SUMMARISING, {}),
    "summarising, answered": (SUMMARISING, Answered("a"), (), Phase.SUMMARISING, {}),
    "summarising, denied": (SUMMARISING, Denied("a"), (), Phase.SUMMARISING, {}),
    "summarising, a late tool": (SUMMARISING, ToolEnded("a", ""), (), Phase.SUMMARISING, {}),
    "summarising, handed over": (SUMMARISING, HandOver(), (), Phase.SUMMARISING, {}),
    "summarising, cancelled": (
        SUMMARISING,
        CancelSeen(),
        (AbortWork(), SaveReply(FinishReason.CANCELED), CANCELLED),
        Phase.ENDED,
        {},
    ),
    "summarising alone, cancelled": (
        ALONE,
        CancelSeen(),
        (AbortWork(), SaveReply(FinishReason.CANCELED), CANCELLED),
        Phase.ENDED,
        {},
    ),
    # -- it is written
    "summarising, replied": (
        SUMMARISING,
        REPLIED_STOP,
        (WRITTEN, CallModel(fold=True)),
        Phase.CALLING,
        {},
    ),
    "summarising, replied and full again": (
        SUMMARISING,
        Replied(FinishReason.MAX_TOKENS, is_full=True),
        (WRITTEN, CallModel(fold=True)),
        Phase.CALLING,
        {},
    ),
    "summarising, replied with calls that it may not make": (
        SUMMARISING,
        Replied(FinishReason.TOOL_USE, (one("a"),)),
        (WRITTEN, CallModel(fold=True)),
        Phase.CALLING,
        {},
    ),
    "summarising for a retry, replied": (
        RETRIES,
        REPLIED_STOP,
        (WRITTEN, CallModel(fold=True)),
        Phase.CALLING,
        {},
    ),
    "summarising and handed over, replied": (
        replace(SUMMARISING, hands_over=True),
        REPLIED_STOP,
        (WRITTEN, Release()),
        Phase.ENDED,
        {},
    ),
    "summarising alone, replied": (
        ALONE,
        REPLIED_STOP,
        (WRITTEN, End(RunOutcome.COMPLETED)),
        Phase.ENDED,
        {},
    ),
    "summarising alone and handed over, replied": (
        replace(ALONE, hands_over=True),
        REPLIED_STOP,
        (WRITTEN, End(RunOutcome.COMPLETED)),
        Phase.ENDED,
        {},
    ),
    # -- it could not be written
    "summarising, failed": (
        SUMMARISING,
        ReplyFailed("busy"),
        (BROKEN, CallModel(fold=True)),
        Phase.CALLING,
        {},
    ),
    "summarising, exhausted": (
        SUMMARISING,
        EXHAUSTED,
        (BROKEN, CallModel(fold=True)),
        Phase.CALLING,
        {},
    ),
    "summarising and handed over, failed": (
        replace(SUMMARISING, hands_over=True),
        ReplyFailed("busy"),
        (BROKEN, Release()),
        Phase.ENDED,
        {},
    ),
    "summarising for a retry, failed": (
        RETRIES,
        ReplyFailed("busy"),
        (BROKEN, failed("busy")),
        Phase.ENDED,
        {},
    ),
    "summarising for a retry, exhausted": (
        RETRIES,
        EXHAUSTED,
        (BROKEN, failed("too long")),
        Phase.ENDED,
        {},
    ),
    "summarising for a retry and handed over, failed": (
        replace(RETRIES, hands_over=True),
        ReplyFailed("busy"),
        (BROKEN, failed("busy")),
        Phase.ENDED,
        {},
    ),
    "summarising alone, failed": (
        ALONE,
        ReplyFailed("busy"),
        (BROKEN, failed("busy")),
        Phase.ENDED,
        {},
    ),
    "summarising alone, exhausted": (
        ALONE,
        EXHAUSTED,
        (BROKEN, failed("too long")),
        Phase.ENDED,
        {},
    ),
}
