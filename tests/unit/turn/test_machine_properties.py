"""The turn machine under a runner that does anything in any order, and crashes.

The store changes by durable effects alone; whatever is not in it is lost by a
crash. What must always hold is asserted where the effects are performed.
"""

from __future__ import annotations

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agents.states import RunOutcome
from agents.turn.effects import (
    CallModel,
    CheckCall,
    Effect,
    End,
    GiveResult,
    Release,
    RunTool,
    Summarise,
)
from agents.turn.inputs import (
    Allowed,
    Answered,
    AnswerNeeded,
    Begun,
    CancelSeen,
    Denied,
    HandOver,
    Input,
    Replied,
    ReplyFailed,
    RequestedCall,
    ToolEnded,
)
from agents.turn.state import Phase, Progress
from tests.unit.turn.checked_run import CheckedRun, calls
from workspaces.log.parts import FinishReason

REASONS = [
    FinishReason.END_TURN,
    FinishReason.MAX_TOKENS,
    FinishReason.TOOL_USE,
    FinishReason.UNKNOWN,
]
# A seed each: drawn choice by choice, hardly a turn would get behind its first reply.
pick = st.integers(0, 2**32 - 1).map(random.Random)
SPEAKING = {Phase.CALLING, Phase.SUMMARISING}
seldom = st.integers(0, 9).map(lambda number: number == 6)  # or each run would end at once


class Runner(CheckedRun, RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.accept()

    # -- what happens

    @rule(random=pick, moves=st.integers(1, 60))
    def go_on(self, random: random.Random, moves: int) -> None:
        """What may happen next, in any order, where nobody disturbs the runs much."""
        for _ in range(moves):
            if self.is_over:
                self.accept()
            elif not self.store.is_held:
                self.claim_again()
            elif not self.is_begun:
                self.begin(random)
            elif random.randrange(30) == 0:
                self.feed(HandOver())
            else:
                random.choice(
                    [
                        *([self.perform] * 3 if self.wanted else ()),
                        *([self.reply] if self.streams else ()),
                        *([self.judge] * 2 if self.judging else ()),
                        *([self.answer] if calls(self.turn, Progress.NEEDS_ANSWER) else ()),
                        *([self.end_a_tool] if self.running else ()),
                    ]
                )(random)

    def begin(self, random: random.Random) -> None:
        self.is_begun = True
        if self.is_alone is None:
            self.is_alone = random.randrange(6) == 0
        self.is_full = random.random() < 0.5
        self.feed(Begun(self.is_full, self.is_alone))

    def perform(self, random: random.Random) -> None:
        effect = self.wanted.pop(random.randrange(len(self.wanted)))
        match effect:
            case CallModel() | Summarise():
                self.streams = True
            case CheckCall(call_id):
                self.judging.add(call_id)
            case RunTool(call_id):
                assert call_id not in self.ran, "a tool runs twice"
                self.ran.add(call_id)
                self.running.add(call_id)

    def reply(self, random: random.Random) -> None:
        """The model's reply, or its summary, comes to an end or breaks."""
        # A summary, and a retry, break more often than not: these are the rare ways.
        is_rare = self.opened == "summary" or self.is_retrying
        chance = random.randrange(5 if is_rare else 20)
        if chance < 3:
            self.break_reply(ReplyFailed("it broke", is_exhausted=chance > 0))
        elif self.opened == "summary":
            self.write_summary(is_full=random.random() < 0.5)
        else:
            self.write_reply(random, count=0 if chance == 4 else random.randrange(1, 6))

    def write_reply(self, random: random.Random, count: int) -> None:
        made = tuple(
            RequestedCall(
                f"call-{self.made + number}",
                random.choice(["view", "bash"]),
                random.choice(["{}", '{"a":1}']),
                parallel=random.random() < 0.7,
            )
            for number in range(count)
        )
        self.made += count
        reason = random.choice(REASONS)
        self.feed(Replied(reason, made, is_full=random.random() < 0.5))
        expected = FinishReason.TOOL_USE if made else reason
        if not made and reason is FinishReason.TOOL_USE:
            expected = FinishReason.END_TURN
        assert self.store.finishes[-1] is expected

    def write_summary(self, *, is_full: bool) -> None:
        before, hands_over = self.store.summaries, self.turn.hands_over
        effects = self.feed(Replied(FinishReason.MAX_TOKENS, is_full=is_full))
        assert self.store.summaries == before + 1
        self.check_behind_summary(effects[-1], hands_over=hands_over)

    def check_behind_summary(self, then: Effect, *, hands_over: bool) -> None:
        if self.is_alone:
            assert then == End(RunOutcome.COMPLETED)
        elif hands_over:
            assert then == Release()
        else:
            assert then == CallModel(fold=True)

    def break_reply(self, failed: ReplyFailed) -> None:
        opened, summaries, hands_over = self.opened, self.store.summaries, self.turn.hands_over
        fits_not = failed.is_exhausted and not self.is_retrying
        effects = self.feed(failed)
        assert self.store.summaries == summaries
        if opened == "summary" and not (self.is_retrying or self.is_alone):
            self.check_behind_summary(effects[-1], hands_over=hands_over)
        elif opened == "reply" and fits_not and hands_over:
            assert effects[-1] == Release()
        elif opened == "reply" and fits_not:
            assert effects[-1] == Summarise()
            self.is_retrying = True
        else:
            assert self.store.ends[-1].outcome is RunOutcome.FAILED

    def judge(self, random: random.Random) -> None:
        call_id = random.choice(sorted(self.judging))
        chance = random.randrange(20)
        if chance == 0:
            self.deny(call_id)
        elif chance == 1:
            self.end_tool(call_id, "bad arguments")
        elif chance < 8:
            self.judging.discard(call_id)
            self.feed(AnswerNeeded(call_id))
        else:
            self.allow(call_id)

    def answer(self, random: random.Random) -> None:
        call_id = random.choice(calls(self.turn, Progress.NEEDS_ANSWER)).request.id
        chance = random.randrange(8)
        if chance == 0:
            self.deny(call_id)
        elif chance < 4:
            self.answered(call_id)
        else:
            self.allow(call_id)

    def answered(self, call_id: str) -> None:
        hands_over = self.turn.hands_over
        effects = self.feed(Answered(call_id))
        assert call_id in self.store.missing()
        if hands_over:
            assert effects in ((), (Release(),))
        else:
            assert effects == (CheckCall(call_id),)

    def end_a_tool(self, random: random.Random) -> None:
        self.end_tool(random.choice(sorted(self.running)), random.choice(["same", "other"]))

    def allow(self, call_id: str) -> None:
        self.judging.discard(call_id)
        self.may_run.add(call_id)
        self.feed(Allowed(call_id))

    def deny(self, call_id: str) -> None:
        self.was_denied = True
        effects = self.feed(Denied(call_id))
        assert isinstance(effects[0], GiveResult)
        # What was wanted of calls that now have results is void.
        missing = self.store.missing()
        self.judging &= missing
        self.wanted = [e for e in self.wanted if isinstance(e, RunTool) and e.call_id in missing]

    def end_tool(self, call_id: str, content: str) -> None:
        self.judging.discard(call_id)
        self.running.discard(call_id)
        self.feed(ToolEnded(call_id, content))

    @precondition(lambda self: self.streams and self.opened == "reply")
    @rule(content=st.sampled_from(["same", "other"]), parallel=st.booleans())
    def repeat_a_step(self, content: str, *, parallel: bool) -> None:
        """One and the same step whole, so that loops come about."""
        call = RequestedCall(f"call-{self.made}", "ls", "{}", parallel)
        self.made += 1
        self.streams = False
        self.feed(Replied(FinishReason.TOOL_USE, (call,)))
        for happened in (Allowed(call.id), ToolEnded(call.id, content)):
            self.wanted = [e for e in self.wanted if isinstance(e, CallModel | Summarise)]
            self.may_run.add(call.id)
            self.feed(happened)

    @precondition(
        lambda self: calls(self.turn, Progress.WAITING) and self.turn.phase is Phase.TOOLS
    )
    @rule(random=pick, no=seldom)
    def deny_ahead(self, random: random.Random, *, no: bool) -> None:
        """The answer to a question from before a crash, before the call is judged again."""
        if no:
            self.deny(random.choice(calls(self.turn, Progress.WAITING)).request.id)

    @precondition(lambda self: not self.is_over and self.store.is_held)
    @rule(cancels=seldom)
    def cancel(self, *, cancels: bool) -> None:
        if not cancels:
            return
        self.was_cancelled = True
        self.feed(CancelSeen())
        assert self.store.ends[-1].outcome is RunOutcome.CANCELLED
        assert not self.running
        assert not self.streams

    @precondition(lambda self: self.store.is_held and not self.is_over)
    @rule(chance=st.integers(0, 9))
    def hand_over(self, chance: int) -> None:
        if chance > (4 if self.opened else 8):
            self.feed(HandOver())

    def claim_again(self) -> None:
        assert self.turn.phase is Phase.ENDED
        self.store.is_held = True
        self.take_on()

    @precondition(lambda self: not self.running and not self.is_over)
    @rule()
    def crash(self) -> None:
        """Also: a parked run left and taken on after its answer. The words of an open reply,
        and of an open summary, are lost."""
        self.store.is_held = True
        self.take_on()

    @rule(number=st.integers(0, 30), kind=st.integers(0, 4))
    def come_late(self, number: int, kind: int) -> None:
        """An input about a call that is long past, or never was."""
        call_id = f"call-{number}"
        call = next((c for c in self.turn.calls if c.request.id == call_id), None)
        if self.is_over or call is None or call.progress is Progress.DONE:
            late: Input = (
                Allowed(call_id),
                AnswerNeeded(call_id),
                Denied(call_id),
                ToolEnded(call_id, "late"),
                Answered(call_id),
            )[kind]
        elif call.progress is Progress.RUNNING:
            late = (
                Allowed(call_id),
                AnswerNeeded(call_id),
                Denied(call_id),
                AnswerNeeded("no"),
                Answered(call_id),
            )[kind]
        elif call.progress is Progress.WAITING:
            late = (Allowed(call_id), AnswerNeeded(call_id), Answered(call_id))[kind % 3]
        elif call.progress is Progress.CHECKING:
            late = Answered(call_id)
        else:
            return
        before = self.turn
        assert self.feed(late) == ()
        assert self.turn == before

    @precondition(lambda self: self.turn.phase not in SPEAKING)
    @rule(
        reply=st.sampled_from(
            [
                Replied(FinishReason.END_TURN),
                ReplyFailed("late"),
                ReplyFailed("late", is_exhausted=True),
            ]
        )
    )
    def reply_late(self, reply: Input) -> None:
        before = self.turn
        assert self.feed(reply) == ()
        assert self.turn == before

    # -- what always holds

    @invariant()
    def it_finishes_at_most_once(self) -> None:
        assert len(self.store.ends) <= 1

    @invariant()
    def the_model_is_asked_for_what_the_phase_says(self) -> None:
        assert (self.opened == "reply") is (self.turn.phase is Phase.CALLING)
        assert (self.opened == "summary") is (self.turn.phase is Phase.SUMMARISING)

    @invariant()
    def a_run_for_a_summary_makes_one_and_no_more(self) -> None:
        if self.is_alone:
            assert not self.store.steps
            assert self.store.summaries <= 1

    @invariant()
    def a_denied_turn_waits_only_for_what_runs(self) -> None:
        if self.was_denied and not self.is_over and self.is_begun and self.store.is_held:
            assert calls(self.turn, Progress.RUNNING)
            assert not calls(self.turn, Progress.NEEDS_ANSWER, Progress.CHECKING, Progress.WAITING)

    @invariant()
    def it_is_never_stuck(self) -> None:
        if self.is_begun and not self.is_over and self.store.is_held:
            assert (
                self.wanted
                or self.streams
                or self.judging
                or self.running
                or calls(self.turn, Progress.NEEDS_ANSWER)
            ), "nothing will ever happen again"

    @invariant()
    def it_waits_for_no_answer_while_it_could_go_on(self) -> None:
        waits = self.turn.phase is Phase.TOOLS and self.is_begun
        if (
            waits
            and not self.turn.hands_over
            and not calls(self.turn, Progress.RUNNING, Progress.CHECKING)
        ):
            first = next(c for c in self.turn.calls if c.progress is not Progress.DONE)
            assert first.progress is Progress.NEEDS_ANSWER


Runner.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
TestRunner = Runner.TestCase
