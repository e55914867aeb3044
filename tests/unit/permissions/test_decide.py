"""What is allowed without asking, and what a grant covers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from permissions.policy.decide import Decision, PolicyOutcome, PolicyRequest, SessionGrant, decide

QUESTION = PolicyRequest(session_id="s1", tool_name="edit", action="write", path="/home/a/x.py")
GRANT = SessionGrant(session_id="s1", tool_name="edit", action="write", path="/home/a/x.py")


def outcome(question=QUESTION, *, skip=False, allowed=(), grants=()):
    return decide(question, skip=skip, allowed_tools=frozenset(allowed), grants=grants).outcome


def test_it_asks_when_nothing_allows_it():
    assert decide(QUESTION, skip=False, allowed_tools=frozenset(), grants=()) == Decision(
        PolicyOutcome.ASK, "Nothing allows it yet."
    )


def test_it_asks_nothing_when_the_workspace_skips_questions():
    assert outcome(skip=True) is PolicyOutcome.ALLOW


@pytest.mark.parametrize("allowed", ["edit", "edit:write"])
def test_it_allows_a_tool_that_the_configuration_names(allowed):
    assert outcome(allowed=[allowed]) is PolicyOutcome.ALLOW


@pytest.mark.parametrize(
    "allowed", ["", "ed", "edit:", "edit:read", "Edit", "write", "edit:write:x", "*"]
)
def test_it_asks_when_the_configuration_names_something_else(allowed):
    assert outcome(allowed=[allowed]) is PolicyOutcome.ASK


def test_a_grant_allows_exactly_what_was_granted():
    assert outcome(grants=[replace(GRANT, path="/other"), GRANT]) is PolicyOutcome.ALLOW


@pytest.mark.parametrize(
    "other",
    [
        {"session_id": "s2"},
        {"tool_name": "write"},
        {"action": "read"},
        {"path": "/home/a"},
        {"path": "/home/a/x.py/"},
        {"path": ""},
    ],
)
def test_a_grant_for_anything_else_allows_nothing(other):
    assert outcome(grants=[replace(GRANT, **other)]) is PolicyOutcome.ASK


def test_a_question_of_no_session_is_denied_even_when_questions_are_skipped():
    assert outcome(replace(QUESTION, session_id=""), skip=True) is PolicyOutcome.DENY
    assert outcome(replace(QUESTION, tool_name=""), skip=True, allowed=[""]) is PolicyOutcome.DENY


def test_a_tool_that_carries_a_colon_in_its_name_does_not_borrow_anothers_leave():
    question = replace(QUESTION, tool_name="mcp_a:b", action="execute")
    assert outcome(question, allowed=["mcp_a"]) is PolicyOutcome.ASK


def test_a_grant_says_no_where_it_does_not_cover():
    assert replace(GRANT, session_id="s2").covers(QUESTION, "/home/a/x.py") is False
    assert GRANT.covers(QUESTION, "/home/a/x.py/b") is False


FILE = replace(QUESTION, path="/home/a", files=("/home/a/x.py",))


def test_a_grant_for_a_file_is_for_that_file():
    assert outcome(FILE, grants=[GRANT]) is PolicyOutcome.ALLOW
    assert outcome(replace(FILE, files=("/home/a/y.py",)), grants=[GRANT]) is PolicyOutcome.ASK
    # As older versions stored it, for the folder that was shown:
    assert outcome(FILE, grants=[replace(GRANT, path="/home/a")]) is PolicyOutcome.ASK


def test_a_grant_for_a_folder_is_for_what_lies_in_it():
    folder = replace(GRANT, path="/home/a", is_folder=True)
    assert outcome(replace(FILE, files=("/home/a/b/c.py",)), grants=[folder]) is PolicyOutcome.ALLOW
    assert outcome(replace(FILE, files=("/home/ab/c.py",)), grants=[folder]) is PolicyOutcome.ASK
    assert outcome(replace(FILE, tool_name="write"), grants=[folder]) is PolicyOutcome.ASK
    assert outcome(replace(FILE, session_id="s2"), grants=[folder]) is PolicyOutcome.ASK


def test_several_files_need_a_grant_for_each():
    both = replace(FILE, files=("/home/a/x.py", "/home/a/y.py"))
    assert outcome(both, grants=[GRANT]) is PolicyOutcome.ASK
    assert outcome(both, grants=[GRANT, replace(GRANT, path="/home/a/y.py")]) is PolicyOutcome.ALLOW


def test_only_a_workspace_that_asks_for_nothing_lets_a_protected_file_pass():
    always = replace(FILE, always_asks=True)
    assert outcome(always, allowed=["edit", "edit:write"], grants=[GRANT]) is PolicyOutcome.ASK
    assert outcome(always, skip=True) is PolicyOutcome.ALLOW
