"""A run as its runner keeps it: the turn, the store, and what is asserted of every effect.

The store changes by durable effects alone; whatever is not in it is lost by a
crash. Knows nothing of what happens next.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from agents.states import RunOutcome
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
from agents.turn.inputs import Begun, Input, Replied, ReplyFailed, ToolEnded
from agents.turn.machine import advance
from agents.turn.notes import REPEATED_NOTE
from agents.turn.state import LOOP_REPEATS, REPLIES_BETWEEN_SUMMARIES, Call, Phase, Progress, Turn
from tests.unit.turn.stored_turn import Store, check_rebuilt
from workspaces.log.parts import FinishReason

Open: TypeAlias = Literal["", "reply", "summary"]


def calls(turn: Turn, *progress: Progress) -> list[Call]:
    return [call for call in turn.calls if call.progress in progress]


class CheckedRun:
    """One run after the other; ``accept`` begins one."""

    def accept(self) -> None:
        """A new run; the one before is over for good."""
        self.store = Store()
        self.made = 0  # calls so far, for their ids
        self.ran: set[str] = set()
        self.may_run: set[str] = set()
        self.was_denied = False
        self.was_cancelled = False
        self.is_alone: bool | None = None  # the run is for a summary only
        self.take_on()

    def take_on(self) -> None:
        self.turn = self.store.rebuilt()
        self.is_begun = False
        self.opened: Open = ""  # what the model was asked for and has not ended
        self.is_full = False  # told, and not answered by a summary
        self.is_retrying = False  # for what did not fit before
        self.since_summary = REPLIES_BETWEEN_SUMMARIES
        self.known_from = self.store.first_step
        self.forget_work()

    def forget_work(self) -> None:
        self.wanted: list[Effect] = []  # not durable, not yet performed
        self.streams = False
        self.judging: set[str] = set()
        self.running: set[str] = set()

    @property
    def is_over(self) -> bool:
        return bool(self.store.ends)

    def feed(self, happened: Input) -> tuple[Effect, ...]:
        before = self.turn
        self.turn, effects = advance(before, happened)
        self.told(happened)
        assert sum(isinstance(e, End | Park | Release) for e in effects) <= 1
        for effect in effects:
            self.check(effect, happened)
            self.store_effect(effect, happened)
        for effect in effects:
            if isinstance(effect, AbortWork):
                self.forget_work()
        self.wanted += [
            e for e in effects if isinstance(e, CallModel | Summarise | CheckCall | RunTool)
        ]
        if isinstance(effects[-1] if effects else None, End):
            assert not self.store.missing(), "the turn ended with a call that has no result"
            assert self.turn.phase is Phase.ENDED
        if not self.is_over:
            check_rebuilt(self.store, self.turn)
        return effects

    def told(self, happened: Input) -> None:
        if self.opened == "reply" and isinstance(happened, Replied):
            self.is_full = happened.is_full
            self.is_retrying = False
            self.since_summary += 1

    def store_effect(self, effect: Effect, happened: Input) -> None:
        assert not self.is_over, f"{effect} after the end"
        match effect:
            case SaveReply(reason):
                assert self.opened, "a reply is written that was not asked for"
                if self.opened == "reply":
                    made = happened.calls if isinstance(happened, Replied) else ()
                    self.store.steps.append(made)
                elif reason is FinishReason.END_TURN:
                    self.store.summarise()
                self.store.finishes.append(reason)
                self.streams, self.opened = False, ""
            case CallModel():
                self.opened = "reply"
            case Summarise():
                self.opened, self.is_full, self.since_summary = "summary", False, 0
            case SaveResult(call_id):
                assert isinstance(happened, ToolEnded)
                assert call_id in self.store.missing()
                self.store.results.append((call_id, happened.content))
            case GiveResult(call_id, content):
                assert call_id in self.store.missing()
                self.store.results.append((call_id, content))
            case End():
                self.store.ends.append(effect)
                self.forget_work()
            case Release():
                self.store.is_held = False

    def check(self, effect: Effect, happened: Input) -> None:
        match effect:
            case CallModel(fold):
                self.check_asking()
                assert not self.is_alone, "a run that only summarises goes on"
                assert not (self.is_full and self.may_summarise()), "the summary is left out"
                first = self.store.first_step
                assert fold == (len(self.store.steps) > first or not isinstance(happened, Begun))
            case Summarise():
                self.check_asking()
                is_forced = isinstance(happened, ReplyFailed) and happened.is_exhausted
                assert is_forced or self.is_alone or (self.is_full and self.may_summarise())
                assert not self.turn.hands_over, "a summary is begun while the process stops"
            case RunTool(call_id):
                assert call_id in self.may_run, "a call runs that nobody allowed"
                assert call_id in self.store.missing()
                self.check_neighbours(call_id)
            case CheckCall(call_id):
                assert call_id in self.store.missing()
                assert call_id not in self.judging
                assert not self.was_denied
            case Park():
                assert calls(self.turn, Progress.NEEDS_ANSWER), "parked with nothing asked"
                assert not calls(self.turn, Progress.RUNNING, Progress.CHECKING)
                assert not self.running
                assert not self.streams
            case Release():
                assert not self.running, "handed over while a tool runs"
                assert not self.streams, "handed over while the model speaks"
            case End(outcome, _, note):
                if note == REPEATED_NOTE:
                    assert self.store.repeats(self.known_from) >= LOOP_REPEATS
                assert self.was_cancelled is (outcome is RunOutcome.CANCELLED)

    def check_asking(self) -> None:
        assert not self.was_denied, "the model is asked after a denial"
        assert not self.store.missing(), "the model is asked while a result lacks"
        assert not self.opened, "the model is asked twice"
        assert self.store.repeats(self.known_from) < LOOP_REPEATS, "a loop goes on"

    def may_summarise(self) -> bool:
        return self.since_summary >= REPLIES_BETWEEN_SUMMARIES

    def check_neighbours(self, call_id: str) -> None:
        """A call runs alone, unless it and all between may run beside each other."""
        step = self.store.steps[-1]
        index = next(i for i, call in enumerate(step) if call.id == call_id)
        missing = self.store.missing()
        before = [call for call in step[:index] if call.id in missing]
        assert not before or (step[index].parallel and all(call.parallel for call in before))
