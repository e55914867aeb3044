"""How a sub-agent's run ends: its last words and its outcome, as those of a run of our own."""

from __future__ import annotations

from agents.fleet.parent.outcome import Ending
from agents.fleet.parent.outcome import Outcome as Ended
from agents.runs.children.rows import end_sub_agent
from agents.runs.lease import Held
from agents.runs.reply import Reply
from agents.runs.step import ReplyWrite, Step, Written
from agents.tools.limits import MAX_AGENT_ANSWER, cut_middle
from agents.turn.effects import End, Outcome
from agents.turn.notes import CANCELLED_NOTE
from workspaces.log.parts import FinishReason
from workspaces.log.writer import writer


async def write_end(held: Held, reply: Reply | None, ended: Ended) -> None:
    """As cancelled where the mark came before. Raises ``LeaseLost``."""
    written = await _write(held, reply, ended)
    if written.is_cancelled:
        await _write(held, reply, Ended(Ending.CANCELLED, events=ended.events))


async def _write(held: Held, reply: Reply | None, ended: Ended) -> Written:
    step = _last_step(reply, ended)
    answer = cut_middle(ended.result or "", MAX_AGENT_ANSWER)
    return await writer.write(
        held.workspace_id,
        lambda tx: end_sub_agent(
            tx,
            held,
            step,
            ending=ended.ending.value,
            answer=answer,
            events=ended.events,
        ),
    )


def _last_step(reply: Reply | None, ended: Ended) -> Step:
    match ended.ending:
        case Ending.COMPLETED:
            reason, end = FinishReason.END_TURN, End(Outcome.COMPLETED)
        case Ending.CANCELLED:
            reason = FinishReason.CANCELED
            end = End(Outcome.CANCELLED, reason, CANCELLED_NOTE)
        case _:
            reason = FinishReason.ERROR
            end = End(Outcome.FAILED, reason, ended.error, ended.error)
    said = ReplyWrite(reply.message_id, reply.parts(), reason) if reply is not None else None
    return Step(reply=said, end=end)
