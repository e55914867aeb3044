"""Asking the model: for its next reply, or for the summary that must come before it. Pure."""

from __future__ import annotations

from dataclasses import replace

from agents.turn.effects import CallModel, End, Outcome, Release, SaveReply, Summarise
from agents.turn.state import REPLIES_BETWEEN_SUMMARIES, Phase, Step, Turn, ended
from workspaces.log.parts import FinishReason


def call_model(turn: Turn, *, fold: bool) -> Step:
    """The next call, or the summary that must come before it."""
    is_due = turn.steps - turn.summary_step >= REPLIES_BETWEEN_SUMMARIES
    if turn.is_full and is_due:
        return summarise(turn)
    return replace(turn, phase=Phase.CALLING), (CallModel(fold),)


def summarise(turn: Turn) -> Step:
    turn = replace(turn, phase=Phase.SUMMARISING, summary_step=turn.steps)
    return turn, (Summarise(),)


def go_on_behind_summary(turn: Turn, reason: FinishReason) -> Step:
    """The summary is written, or could not be and is not needed: what it was made for."""
    if turn.only_summarises:
        return ended(turn), (SaveReply(reason), End(Outcome.COMPLETED))
    if turn.hands_over:
        return ended(turn), (SaveReply(reason), Release())
    turn, effects = call_model(turn, fold=True)
    return turn, (SaveReply(reason), *effects)
