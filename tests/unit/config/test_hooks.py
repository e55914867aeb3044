from typing import Any

import pytest

from agents.config.merge import merge
from agents.config.problem import Problem
from agents.config.sections.hooks import HOOKS_LIMIT, pre_tool_hooks
from agents.config.settings import HookSettings


def hooks(written: Any) -> tuple[tuple[HookSettings, ...], list[str]]:
    problems: list[Problem] = []
    found = pre_tool_hooks({"hooks": written}, problems=problems)
    return found, [str(problem) for problem in problems]


@pytest.mark.parametrize("event", ["PreToolUse", "pre_tool_use", "preToolUse", "PRETOOLUSE"])
def test_every_way_to_write_the_event_is_known(event: str):
    ((hook,), problems) = hooks(
        {event: [{"command": "./guard", "matcher": "^bash$", "timeout": 3}]}
    )
    assert hook == HookSettings("guard", "^bash$", "./guard", 3.0)
    assert problems == []


def test_another_event_is_told():
    assert hooks({"Stop": [{"command": "x"}]}) == (
        (),
        ["hooks.Stop: is not a known event; use PreToolUse"],
    )


def test_a_hook_with_a_broken_matcher_guards_every_tool():
    ((hook,), problems) = hooks({"PreToolUse": [{"command": "x", "matcher": "^(bash"}]})
    assert hook.matcher == ""
    assert problems == [
        "hooks.PreToolUse[0].matcher: is not a regular expression; the hook runs for every tool"
    ]


@pytest.mark.parametrize("matcher", ["", "*", None])
def test_without_a_matcher_it_is_asked_for_every_tool(matcher: str | None):
    ((hook,), problems) = hooks({"PreToolUse": [{"command": "x", "matcher": matcher}]})
    assert (hook.matcher, hook.timeout_seconds, problems) == ("", 30.0, [])


@pytest.mark.parametrize("command", ["", "  ", None, "a\0b"])
def test_a_hook_without_a_command_is_told(command: str | None):
    found, problems = hooks({"PreToolUse": [{"command": command}, {"command": "y"}]})
    assert [hook.command for hook in found] == ["y"]
    assert len(problems) == 1


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("X_TOKEN=secret /usr/bin/guard.sh --key secret", "guard.sh"),
        ("'/opt/a' secret", "a"),
        ("A=secret", "hook"),
        ("/", "hook"),
    ],
)
def test_its_name_is_its_program_and_nothing_more(command: str, name: str):
    ((hook,), _) = hooks({"PreToolUse": [{"command": command}]})
    assert hook.name == name
    assert "secret" not in repr(hook)
    ((named,), _) = hooks({"PreToolUse": [{"command": command, "name": "mine"}]})
    assert named.name == "mine"


def test_there_are_not_endlessly_many():
    found, problems = hooks({"PreToolUse": [{"command": str(n)} for n in range(HOOKS_LIMIT + 5)]})
    assert len(found) == HOOKS_LIMIT
    assert len(problems) == 1


@pytest.mark.parametrize("over", [{"hooks": None}, {"hooks": {"PreToolUse": None}}])
def test_a_project_cannot_take_away_its_user_s_guard(over: dict):
    own = {"hooks": {"PreToolUse": [{"command": "guard"}]}}
    assert merge(own, over) == own
