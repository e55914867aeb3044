"""Short ways to write down a turn, and what a table of turns consists of."""

from __future__ import annotations

from typing import TypeAlias

from agents.states import RunOutcome
from agents.turn.effects import Effect, End
from agents.turn.inputs import Allowed, Input, Replied, RequestedCall, ToolEnded
from agents.turn.machine import advance
from agents.turn.notes import CANCELLED_NOTE
from agents.turn.state import Call, Phase, Progress, Turn
from workspaces.log.parts import FinishReason

W, J, A, R, D = (
    Progress.WAITING,
    Progress.CHECKING,
    Progress.NEEDS_ANSWER,
    Progress.RUNNING,
    Progress.DONE,
)
CANCELLED = End(RunOutcome.CANCELLED, FinishReason.CANCELED, CANCELLED_NOTE)
DENIED_END = End(RunOutcome.COMPLETED, FinishReason.END_TURN)
REPLIED_STOP = Replied(FinishReason.END_TURN)


def one(call_id: str, *, parallel: bool = False) -> RequestedCall:
    return RequestedCall(
        call_id, "view" if parallel else "bash", f'{{"of": "{call_id}"}}', parallel
    )


def tools(*calls: tuple[str, Progress], hands_over: bool = False, is_denied: bool = False) -> Turn:
    """A turn at its calls; a capital letter names a call that may run beside its neighbours."""
    return Turn(
        phase=Phase.TOOLS,
        calls=tuple(Call(one(name, parallel=name.isupper()), state) for name, state in calls),
        steps=1,
        hands_over=hands_over,
        is_denied=is_denied,
    )


FRESH = Turn()
CALLING = Turn(phase=Phase.CALLING)
LATER = Turn(phase=Phase.CALLING, steps=1)
ENDED = Turn(phase=Phase.ENDED)

# name: (turn, input, effects, phase, progress of each call afterwards)
Row: TypeAlias = tuple[Turn, Input, tuple[Effect, ...], Phase, dict[str, Progress]]


def play_step(turn: Turn, call: RequestedCall, content: str) -> tuple[Turn, tuple[Effect, ...]]:
    """One reply with one call, allowed and run."""
    turn, _ = advance(turn, Replied(FinishReason.TOOL_USE, (call,)))
    turn, _ = advance(turn, Allowed(call.id))
    return advance(turn, ToolEnded(call.id, content))
