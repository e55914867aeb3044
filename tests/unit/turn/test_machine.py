"""The turn machine, row by row: a state, what happens, what follows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.turn.effects import (
    AbortWork,
    CallModel,
    Effect,
    End,
    GiveResult,
    Judge,
    Outcome,
    Park,
    Release,
    RunTool,
    SaveReply,
    SaveResult,
)
from agents.turn.inputs import (
    Allowed,
    AnswerNeeded,
    Asked,
    Begun,
    CancelSeen,
    Denied,
    HandOver,
    Input,
    Replied,
    ReplyFailed,
    ToolEnded,
)
from agents.turn.machine import advance
from agents.turn.notes import (
    CANCELLED_NOTE,
    CANCELLED_RESULT,
    DENIED_RESULT,
    REPEATED_NOTE,
    SKIPPED_RESULT,
)
from agents.turn.rebuilding import rebuild
from agents.turn.state import LOOP_REPEATS, LOOP_WINDOW, Call, Phase, Progress, Turn
from workspaces.events.parts import FinishReason

W, J, A, R, D = (
    Progress.WAITING,
    Progress.JUDGED,
    Progress.ASKED,
    Progress.RUNNING,
    Progress.DONE,
)
CANCELLED = End(Outcome.CANCELLED, FinishReason.CANCELED, CANCELLED_NOTE)
DENIED_END = End(Outcome.COMPLETED, FinishReason.END_TURN)
REPLIED_STOP = Replied(FinishReason.END_TURN)


def one(call_id: str, *, parallel: bool = False) -> Asked:
    return Asked(call_id, "view" if parallel else "bash", f'{{"of": "{call_id}"}}', parallel)


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
Row = tuple[Turn, Input, tuple[Effect, ...], Phase, dict[str, Progress]]
TABLE: dict[str, Row] = {
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
        (SaveReply(FinishReason.END_TURN), End(Outcome.COMPLETED)),
        Phase.ENDED,
        {},
    ),
    "calling, out of tokens": (
        CALLING,
        Replied(FinishReason.MAX_TOKENS),
        (SaveReply(FinishReason.MAX_TOKENS), End(Outcome.COMPLETED)),
        Phase.ENDED,
        {},
    ),
    "calling, a tool use without calls": (
        CALLING,
        Replied(FinishReason.TOOL_USE),
        (SaveReply(FinishReason.END_TURN), End(Outcome.COMPLETED)),
        Phase.ENDED,
        {},
    ),
    "calling, one call": (
        CALLING,
        Replied(FinishReason.TOOL_USE, (one("a"),)),
        (SaveReply(FinishReason.TOOL_USE), Judge("a")),
        Phase.TOOLS,
        {"a": J},
    ),
    "calling, calls whatever the reason": (
        CALLING,
        Replied(FinishReason.END_TURN, (one("a"),)),
        (SaveReply(FinishReason.TOOL_USE), Judge("a")),
        Phase.TOOLS,
        {"a": J},
    ),
    "calling, two calls one after the other": (
        CALLING,
        Replied(FinishReason.TOOL_USE, (one("a"), one("b"))),
        (SaveReply(FinishReason.TOOL_USE), Judge("a")),
        Phase.TOOLS,
        {"a": J, "b": W},
    ),
    "calling, two calls beside each other, one behind": (
        CALLING,
        Replied(
            FinishReason.TOOL_USE, (one("A", parallel=True), one("B", parallel=True), one("c"))
        ),
        (SaveReply(FinishReason.TOOL_USE), Judge("A"), Judge("B")),
        Phase.TOOLS,
        {"A": J, "B": J, "c": W},
    ),
    "calling, a parallel call behind another": (
        CALLING,
        Replied(FinishReason.TOOL_USE, (one("a"), one("B", parallel=True))),
        (SaveReply(FinishReason.TOOL_USE), Judge("a")),
        Phase.TOOLS,
        {"a": J, "B": W},
    ),
    "calling, failed": (
        CALLING,
        ReplyFailed("no key"),
        (
            SaveReply(FinishReason.ERROR),
            End(Outcome.FAILED, FinishReason.ERROR, "no key", "no key"),
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
        (SaveReply(FinishReason.END_TURN), End(Outcome.COMPLETED)),
        Phase.ENDED,
        {},
    ),
    "calling, a late tool": (LATER, ToolEnded("a", ""), (), Phase.CALLING, {}),
    "calling, a late answer": (LATER, Allowed("a"), (), Phase.CALLING, {}),
    "calling, a late no": (LATER, Denied("a"), (), Phase.CALLING, {}),
    "calling, a late question": (LATER, AnswerNeeded("a"), (), Phase.CALLING, {}),
    # -- its calls: taken on again
    "waiting, begun": (
        tools(("a", W), ("b", W)),
        Begun(),
        (Judge("a"),),
        Phase.TOOLS,
        {"a": J, "b": W},
    ),
    "one done, begun": (
        tools(("a", D), ("b", W)),
        Begun(),
        (Judge("b"),),
        Phase.TOOLS,
        {"a": D, "b": J},
    ),
    "none left, begun": (tools(), Begun(), (CallModel(fold=True),), Phase.CALLING, {}),
    "waiting, handed over": (tools(("a", W)), HandOver(), (Release(),), Phase.ENDED, {"a": W}),
    "none left, handed over": (tools(), HandOver(), (Release(),), Phase.ENDED, {}),
    "waiting, cancelled": (
        tools(("a", D), ("b", W)),
        CancelSeen(),
        (AbortWork(), GiveResult("b", CANCELLED_RESULT), CANCELLED),
        Phase.ENDED,
        {"a": D, "b": W},
    ),
    "waiting, allowed without being judged": (
        tools(("a", W)),
        Allowed("a"),
        (),
        Phase.TOOLS,
        {"a": W},
    ),
    "waiting, asked without being judged": (
        tools(("a", W)),
        AnswerNeeded("a"),
        (),
        Phase.TOOLS,
        {"a": W},
    ),
    "waiting, denied": (
        tools(("a", W), ("b", W)),
        Denied("b"),
        (GiveResult("b", DENIED_RESULT), GiveResult("a", SKIPPED_RESULT), DENIED_END),
        Phase.ENDED,
        {},
    ),
    # -- judged
    "judged, begun again": (tools(("a", J)), Begun(), (), Phase.TOOLS, {"a": J}),
    "judged, allowed": (tools(("a", J)), Allowed("a"), (RunTool("a"),), Phase.TOOLS, {"a": R}),
    "judged, answer needed": (tools(("a", J)), AnswerNeeded("a"), (Park(),), Phase.TOOLS, {"a": A}),
    "judged beside a judged, answer needed": (
        tools(("A", J), ("B", J)),
        AnswerNeeded("A"),
        (),
        Phase.TOOLS,
        {"A": A, "B": J},
    ),
    "judged beside an asked, answer needed": (
        tools(("A", A), ("B", J)),
        AnswerNeeded("B"),
        (Park(),),
        Phase.TOOLS,
        {"A": A, "B": A},
    ),
    "judged, denied": (
        tools(("a", J)),
        Denied("a"),
        (GiveResult("a", DENIED_RESULT), DENIED_END),
        Phase.ENDED,
        {},
    ),
    "judged, could not run": (
        tools(("a", J), ("b", W)),
        ToolEnded("a", "bad arguments"),
        (SaveResult("a"), Judge("b")),
        Phase.TOOLS,
        {"a": D, "b": J},
    ),
    "judged, cancelled": (
        tools(("a", J)),
        CancelSeen(),
        (AbortWork(), GiveResult("a", CANCELLED_RESULT), CANCELLED),
        Phase.ENDED,
        {"a": J},
    ),
    "judged, handed over": (tools(("a", J)), HandOver(), (), Phase.TOOLS, {"a": J}),
    "judged and handed over, answer needed": (
        tools(("a", J), hands_over=True),
        AnswerNeeded("a"),
        (Release(),),
        Phase.ENDED,
        {"a": A},
    ),
    "judged and handed over, allowed": (
        tools(("a", J), hands_over=True),
        Allowed("a"),
        (RunTool("a"),),
        Phase.TOOLS,
        {"a": R},
    ),
    # -- asked
    "asked, begun again": (tools(("a", A)), Begun(), (Park(),), Phase.TOOLS, {"a": A}),
    "asked, allowed": (tools(("a", A)), Allowed("a"), (RunTool("a"),), Phase.TOOLS, {"a": R}),
    "asked, asked again": (tools(("a", A)), AnswerNeeded("a"), (), Phase.TOOLS, {"a": A}),
    "asked, denied": (
        tools(("a", A), ("b", W)),
        Denied("a"),
        (GiveResult("a", DENIED_RESULT), GiveResult("b", SKIPPED_RESULT), DENIED_END),
        Phase.ENDED,
        {},
    ),
    "asked twice, one allowed": (
        tools(("A", A), ("B", A)),
        Allowed("B"),
        (RunTool("B"),),
        Phase.TOOLS,
        {"A": A, "B": R},
    ),
    "asked twice, one denied": (
        tools(("A", A), ("B", A)),
        Denied("B"),
        (GiveResult("B", DENIED_RESULT), GiveResult("A", SKIPPED_RESULT), DENIED_END),
        Phase.ENDED,
        {},
    ),
    "asked, handed over": (tools(("a", A)), HandOver(), (), Phase.TOOLS, {"a": A}),
    "asked, cancelled": (
        tools(("a", A)),
        CancelSeen(),
        (AbortWork(), GiveResult("a", CANCELLED_RESULT), CANCELLED),
        Phase.ENDED,
        {"a": A},
    ),
    "asked, could not run": (
        tools(("a", A)),
        ToolEnded("a", "gone"),
        (SaveResult("a"), CallModel(fold=True)),
        Phase.CALLING,
        {},
    ),
    # -- running
    "running, begun again": (tools(("a", R)), Begun(), (), Phase.TOOLS, {"a": R}),
    "running, allowed again": (tools(("a", R)), Allowed("a"), (), Phase.TOOLS, {"a": R}),
    "running, asked": (tools(("a", R)), AnswerNeeded("a"), (), Phase.TOOLS, {"a": R}),
    "running, denied": (tools(("a", R)), Denied("a"), (), Phase.TOOLS, {"a": R}),
    "running, ended": (
        tools(("a", R)),
        ToolEnded("a", "out"),
        (SaveResult("a"), CallModel(fold=True)),
        Phase.CALLING,
        {},
    ),
    "running, ended, one left": (
        tools(("a", R), ("b", W)),
        ToolEnded("a", "out"),
        (SaveResult("a"), Judge("b")),
        Phase.TOOLS,
        {"a": D, "b": J},
    ),
    "running beside an asked, ended": (
        tools(("A", A), ("B", R)),
        ToolEnded("B", "out"),
        (SaveResult("B"), Park()),
        Phase.TOOLS,
        {"A": A, "B": D},
    ),
    "running beside another, ended": (
        tools(("A", R), ("B", R), ("c", W)),
        ToolEnded("A", "out"),
        (SaveResult("A"),),
        Phase.TOOLS,
        {"A": D, "B": R, "c": W},
    ),
    "running, two parallel behind": (
        tools(("a", R), ("B", W), ("C", W)),
        ToolEnded("a", "out"),
        (SaveResult("a"), Judge("B"), Judge("C")),
        Phase.TOOLS,
        {"a": D, "B": J, "C": J},
    ),
    "running, another denied": (
        tools(("A", R), ("B", A), ("C", J), ("d", W), ("e", D)),
        Denied("B"),
        (
            GiveResult("B", DENIED_RESULT),
            GiveResult("C", SKIPPED_RESULT),
            GiveResult("d", SKIPPED_RESULT),
        ),
        Phase.TOOLS,
        {"A": R, "B": D, "C": D, "d": D, "e": D},
    ),
    "running after a denial, ended": (
        tools(("A", R), ("B", D), is_denied=True),
        ToolEnded("A", "out"),
        (SaveResult("A"), DENIED_END),
        Phase.ENDED,
        {},
    ),
    "running after a denial, handed over, ended": (
        tools(("A", R), ("B", D), is_denied=True, hands_over=True),
        ToolEnded("A", "out"),
        (SaveResult("A"), DENIED_END),
        Phase.ENDED,
        {},
    ),
    "running after a denial, the denied allowed late": (
        tools(("A", R), ("B", D), is_denied=True),
        Allowed("B"),
        (),
        Phase.TOOLS,
        {"A": R, "B": D},
    ),
    "running after a denial, cancelled": (
        tools(("A", R), ("B", D), is_denied=True),
        CancelSeen(),
        (AbortWork(), GiveResult("A", CANCELLED_RESULT), CANCELLED),
        Phase.ENDED,
        {"A": R, "B": D},
    ),
    "running, cancelled": (
        tools(("A", R), ("B", D), ("c", W)),
        CancelSeen(),
        (
            AbortWork(),
            GiveResult("A", CANCELLED_RESULT),
            GiveResult("c", CANCELLED_RESULT),
            CANCELLED,
        ),
        Phase.ENDED,
        {"A": R, "B": D, "c": W},
    ),
    "running, handed over": (tools(("a", R)), HandOver(), (), Phase.TOOLS, {"a": R}),
    "running and handed over, ended": (
        tools(("a", R), hands_over=True),
        ToolEnded("a", "out"),
        (SaveResult("a"), Release()),
        Phase.ENDED,
        {},
    ),
    "running and handed over, ended, one left": (
        tools(("a", R), ("b", W), hands_over=True),
        ToolEnded("a", "out"),
        (SaveResult("a"), Release()),
        Phase.ENDED,
        {"a": D, "b": W},
    ),
    "running beside another and handed over, ended": (
        tools(("A", R), ("B", R), ("C", W), hands_over=True),
        ToolEnded("A", "out"),
        (SaveResult("A"),),
        Phase.TOOLS,
        {"A": D, "B": R, "C": W},
    ),
    # -- done, unknown
    "done, ended again": (
        tools(("a", D), ("b", R)),
        ToolEnded("a", "x"),
        (),
        Phase.TOOLS,
        {"a": D, "b": R},
    ),
    "done, denied": (tools(("a", D), ("b", R)), Denied("a"), (), Phase.TOOLS, {"a": D, "b": R}),
    "done, allowed": (tools(("a", D), ("b", R)), Allowed("a"), (), Phase.TOOLS, {"a": D, "b": R}),
    "done, asked": (
        tools(("a", D), ("b", R)),
        AnswerNeeded("a"),
        (),
        Phase.TOOLS,
        {"a": D, "b": R},
    ),
    "an unknown call ended": (tools(("a", R)), ToolEnded("z", ""), (), Phase.TOOLS, {"a": R}),
    "an unknown call allowed": (tools(("a", J)), Allowed("z"), (), Phase.TOOLS, {"a": J}),
    "an unknown call denied": (tools(("a", J)), Denied("z"), (), Phase.TOOLS, {"a": J}),
    "an unknown call asked": (tools(("a", J)), AnswerNeeded("z"), (), Phase.TOOLS, {"a": J}),
    "tools, a late reply": (tools(("a", R)), REPLIED_STOP, (), Phase.TOOLS, {"a": R}),
    "tools, a late failure": (tools(("a", R)), ReplyFailed("x"), (), Phase.TOOLS, {"a": R}),
}


@pytest.mark.parametrize("name", TABLE)
def test_it_follows_the_table(name: str) -> None:
    turn, happened, effects, phase, progress = TABLE[name]

    after, wanted = advance(turn, happened)

    assert wanted == effects
    assert after.phase is phase
    assert {call.asked.id: call.progress for call in after.calls} == progress


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if not row[2]])
def test_what_wants_nothing_changes_nothing_but_what_it_says(name: str) -> None:
    turn, happened, _, _, progress = TABLE[name]

    after, _ = advance(turn, happened)

    says_something = isinstance(happened, HandOver) or progress != {
        call.asked.id: call.progress for call in turn.calls
    }
    assert says_something or after == turn


@pytest.mark.parametrize(
    "happened",
    [
        Begun(),
        REPLIED_STOP,
        Replied(FinishReason.TOOL_USE, (one("a"),)),
        ReplyFailed("x"),
        Allowed("a"),
        AnswerNeeded("a"),
        Denied("a"),
        ToolEnded("a", ""),
        CancelSeen(),
        HandOver(),
    ],
)
@pytest.mark.parametrize("turn", [ENDED, replace(tools(("a", R)), phase=Phase.ENDED)])
def test_nothing_follows_an_end(turn: Turn, happened: Input) -> None:
    assert advance(turn, happened) == (turn, ())


def test_it_refuses_what_is_no_input() -> None:
    with pytest.raises(AssertionError):
        advance(CALLING, "replied")  # type: ignore[arg-type]


def play_step(turn: Turn, call: Asked, content: str) -> tuple[Turn, tuple[Effect, ...]]:
    """One reply with one call, allowed and run."""
    turn, _ = advance(turn, Replied(FinishReason.TOOL_USE, (call,)))
    turn, _ = advance(turn, Allowed(call.id))
    return advance(turn, ToolEnded(call.id, content))


REPEATED = End(Outcome.COMPLETED, FinishReason.END_TURN, REPEATED_NOTE)


def test_the_same_step_five_times_ends_the_turn() -> None:
    turn, effects = advance(FRESH, Begun())
    for round_ in range(1, LOOP_REPEATS + 1):
        assert effects[-1] == CallModel(fold=round_ > 1)
        turn, effects = play_step(turn, Asked(f"c{round_}", "ls", "{}"), "same")

    assert effects == (SaveResult(f"c{LOOP_REPEATS}"), REPEATED)
    assert turn.phase is Phase.ENDED


def test_the_same_step_counts_though_others_lie_between() -> None:
    turn, _ = advance(FRESH, Begun())
    ended_at = 0
    for number in range(1, 2 * LOOP_WINDOW):
        other = number % 2 == 0
        call = Asked(f"c{number}", "ls", f'"{number}"' if other else "{}")
        turn, effects = play_step(turn, call, "same")
        if effects[-1] == REPEATED:
            ended_at = number
            break

    assert ended_at == 2 * LOOP_REPEATS - 1


def test_the_same_step_seldom_enough_goes_on() -> None:
    turn, effects = advance(FRESH, Begun())
    for number in range(4 * LOOP_WINDOW):
        call = Asked(f"c{number}", "ls", "{}" if number % 3 == 0 else f'"{number}"')
        turn, effects = play_step(turn, call, "same")
        assert effects[-1] == CallModel(fold=True)

    assert len(turn.trail) == LOOP_WINDOW


@pytest.mark.parametrize("what", ["name", "input", "result"])
def test_a_step_that_differs_is_progress(what: str) -> None:
    turn, effects = advance(FRESH, Begun())
    for number in range(2 * LOOP_WINDOW):
        changing = str(number)
        call = Asked(
            changing, changing if what == "name" else "ls", changing if what == "input" else "{}"
        )
        turn, effects = play_step(turn, call, changing if what == "result" else "same")

    assert effects[-1] == CallModel(fold=True)


def test_a_loop_is_ended_also_while_it_is_handed_over() -> None:
    turn, _ = advance(FRESH, Begun())
    for number in range(LOOP_REPEATS - 1):
        turn, _ = play_step(turn, Asked(str(number), "ls", "{}"), "same")
    turn, _ = advance(turn, Replied(FinishReason.TOOL_USE, (Asked("last", "ls", "{}"),)))
    turn, _ = advance(turn, Allowed("last"))
    turn, _ = advance(turn, HandOver())
    turn, effects = advance(turn, ToolEnded("last", "same"))

    assert effects == (SaveResult("last"), REPEATED)


def test_a_turn_without_messages_is_rebuilt_fresh() -> None:
    assert rebuild((), ()) == Turn()


def test_calls_without_results_wait_again() -> None:
    turn = rebuild([(one("a"),), (one("b"), one("c"))], [("a", "x"), ("b", "y")])

    assert turn.phase is Phase.TOOLS
    assert turn.steps == 2
    assert [call.progress for call in turn.calls] == [D, W]
    assert len(turn.trail) == 1


def test_a_turn_with_every_result_calls_the_model_next() -> None:
    turn = rebuild([(one("a"),)], [("a", "x")])

    assert turn.calls == ()
    assert advance(turn, Begun())[1] == (CallModel(fold=True),)


def test_a_call_is_not_taken_as_done_because_an_earlier_reply_used_its_id() -> None:
    turn = rebuild([(one("a"),), (one("a"),)], [("a", "x")])

    assert [call.progress for call in turn.calls] == [W]


def test_each_reply_gets_its_own_result_of_an_id() -> None:
    live, _ = advance(FRESH, Begun())
    for content in ("first", "second"):
        live, _ = play_step(live, one("a"), content)

    assert (
        rebuild([(one("a"),), (one("a"),)], [("a", "first"), ("a", "second")]).trail == live.trail
    )


def test_a_denial_outlives_a_crash_before_its_neighbour_ran() -> None:
    calls = (one("A", parallel=True), one("B", parallel=True), one("c"))
    turn, _ = advance(CALLING, Replied(FinishReason.TOOL_USE, calls))
    turn, _ = advance(turn, Allowed("A"))
    turn, effects = advance(turn, Denied("B"))
    stored = [(e.call_id, e.content) for e in effects if isinstance(e, GiveResult)]

    turn, effects = advance(rebuild([calls], stored), Begun())

    assert effects == (GiveResult("A", SKIPPED_RESULT), DENIED_END)
    assert turn.phase is Phase.ENDED


def test_a_denial_whose_results_are_all_stored_never_calls_the_model() -> None:
    turn = rebuild([(one("a"),)], [("a", DENIED_RESULT)])

    assert advance(turn, Begun())[1] == (DENIED_END,)


def test_the_loop_guard_remembers_over_a_crash() -> None:
    call = Asked("c", "ls", "{}")
    done = LOOP_REPEATS - 1
    turn = rebuild([(call,)] * done, [("c", "same")] * done)
    turn, effects = advance(turn, Begun())
    assert effects == (CallModel(fold=True),)

    turn, effects = play_step(turn, call, "same")

    assert effects[-1] == REPEATED


def test_a_long_turn_keeps_only_its_last_steps_in_mind() -> None:
    steps = [(Asked(str(n), "ls", str(n)),) for n in range(3 * LOOP_WINDOW)]

    turn = rebuild(steps, [(str(n), "") for n in range(3 * LOOP_WINDOW)])

    assert turn.steps == 3 * LOOP_WINDOW
    assert len(turn.trail) == LOOP_WINDOW


def test_a_result_that_is_no_valid_text_is_still_compared() -> None:
    turn = rebuild([(one("a"),)], [("a", "\ud800")])

    assert len(turn.trail) == 1


def test_a_reply_without_calls_leaves_no_trace() -> None:
    assert rebuild([()], ()).trail == ()
