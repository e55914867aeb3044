"""What one hook's end means, and what several decide together."""

from typing import Any

import orjson
import pytest

from agents.hooks.protocol import HookAnswer, HookDecision, HookVerdict, answer_of, verdict_of

INPUT = {"command": "ls", "description": "look"}


def answer(exit_code: int = 0, stdout: Any = b"", stderr: str = "") -> HookAnswer:
    raw = stdout if isinstance(stdout, bytes) else orjson.dumps(stdout)
    return answer_of("guard", "", exit_code=exit_code, stdout=raw, stderr=stderr)


def test_silence_is_no_opinion_and_no_fault() -> None:
    assert answer() == HookAnswer("guard")
    assert answer(stdout=b" \n") == HookAnswer("guard")


@pytest.mark.parametrize("code", [2, 49])
def test_exit_code_two_denies_with_what_it_said(code: int) -> None:
    said = answer(code, {"decision": "allow"}, "Not on a Friday.\n")
    assert (said.decision, said.reason) == (HookDecision.DENY, "Not on a Friday.")
    assert answer(code).reason == "The hook guard refused the call."


@pytest.mark.parametrize("code", [1, 3, 127, 137])
def test_any_other_exit_code_is_no_opinion(code: int) -> None:
    said = answer(code, {"decision": "deny"}, "boom")
    assert said.decision is HookDecision.NONE
    assert said.fault == f"it ended with exit code {code}"


@pytest.mark.parametrize(
    ("word", "decision"),
    [
        ("allow", HookDecision.ALLOW),
        ("approve", HookDecision.ALLOW),
        ("DENY", HookDecision.DENY),
        ("block", HookDecision.DENY),
        ("ask", HookDecision.NONE),
        (None, HookDecision.NONE),
        (17, HookDecision.NONE),
    ],
)
def test_words_for_decisions(word: Any, decision: HookDecision) -> None:
    assert answer(stdout={"decision": word, "reason": "r"}).decision is decision


def test_the_shape_of_another_agents_hooks_is_understood() -> None:
    said = answer(
        stdout={
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": "no",
                "updatedInput": {"command": "pwd"},
                "additionalContext": "by the way",
            }
        }
    )
    assert said == HookAnswer(
        "guard", "", HookDecision.DENY, "no", {"command": "pwd"}, "by the way"
    )


@pytest.mark.parametrize("said", [{"halt": True}, {"continue": False}])
def test_a_hook_that_wants_the_turn_to_end_denies_the_call(said: dict[str, Any]) -> None:
    assert answer(stdout=said).decision is HookDecision.DENY


@pytest.mark.parametrize(
    ("stdout", "fault"),
    [
        (b"done!", "its output is not JSON"),
        (b'{"decision": "deny"', "its output is not JSON"),
        (b"[1]", "its output is not a JSON object"),
        (b"\xff\xfe", "its output is not JSON"),
    ],
)
def test_broken_output_is_no_opinion(stdout: bytes, fault: str) -> None:
    assert answer(stdout=stdout) == HookAnswer("guard", fault=fault)


def test_an_updated_input_that_is_no_object_is_left_out_and_the_rest_counts() -> None:
    said = answer(stdout={"decision": "allow", "updated_input": [1]})
    assert said.decision is HookDecision.ALLOW
    assert said.updated_input is None
    assert said.fault == "its updated_input is not an object"


def test_an_updated_input_may_be_a_text_and_context_a_list() -> None:
    said = answer(stdout={"updated_input": '{"command": "pwd"}', "context": ["a", "", "b", 1]})
    assert said.updated_input == {"command": "pwd"}
    assert said.context == "a\nb"


def test_what_hooks_say_is_bounded() -> None:
    said = answer(stdout={"decision": "deny", "reason": "r" * 9_999, "context": "c" * 99_999})
    assert (len(said.reason), len(said.context)) == (4_000, 10_000)
    assert len(answer(2, stderr="e" * 9_999).reason) == 4_000


def test_nobody_asked_decides_nothing() -> None:
    assert verdict_of([], INPUT) == HookVerdict()
    assert HookVerdict().metadata() is None


def test_one_that_denies_wins() -> None:
    allow = HookAnswer("a", decision=HookDecision.ALLOW, updated_input={"command": "pwd"})
    deny = HookAnswer("b", decision=HookDecision.DENY, reason="no")
    also = HookAnswer("c", decision=HookDecision.DENY, reason="never")
    verdict = verdict_of([allow, deny, also], INPUT)
    assert verdict.decision is HookDecision.DENY
    assert verdict.reason == "no\nnever"
    assert verdict.updated_input is None


def test_one_that_allows_wins_over_silence_and_broken_ones() -> None:
    verdict = verdict_of(
        [HookAnswer("a"), HookAnswer("b", decision=HookDecision.ALLOW), HookAnswer("c", fault="x")],
        INPUT,
    )
    assert verdict.decision is HookDecision.ALLOW
    assert verdict.reason == ""


def test_inputs_are_merged_in_order_and_the_rest_is_kept() -> None:
    verdict = verdict_of(
        [
            HookAnswer("a", updated_input={"command": "first", "extra": 1}, context="one"),
            HookAnswer("b", updated_input={"command": "second"}, context="two"),
        ],
        INPUT,
    )
    assert verdict.updated_input == {"command": "second", "description": "look", "extra": 1}
    assert verdict.context == "one\ntwo"
    assert INPUT == {"command": "ls", "description": "look"}


def test_an_input_that_stays_the_same_was_not_updated() -> None:
    assert verdict_of([HookAnswer("a", updated_input=dict(INPUT))], INPUT).updated_input is None


def test_clients_are_shown_who_said_what() -> None:
    verdict = verdict_of(
        [
            HookAnswer("a", "^bash$", updated_input={"command": "pwd"}),
            HookAnswer("b", decision=HookDecision.ALLOW),
        ],
        INPUT,
    )
    assert verdict.metadata() == {
        "hook_count": 2,
        "decision": "allow",
        "input_rewrite": True,
        "hooks": [
            {"name": "a", "matcher": "^bash$", "decision": "none", "input_rewrite": True},
            {"name": "b", "decision": "allow"},
        ],
    }
