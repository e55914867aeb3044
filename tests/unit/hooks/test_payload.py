"""What a hook is given, and which hooks are asked."""

from typing import Any

import orjson
import pytest

from agents.config.settings import HookSettings
from agents.hooks.protocol import CannotShowCall, ToolUse, matching


def use(**tool_input: Any) -> ToolUse:
    return ToolUse("bash", tool_input, "s-1", "/project")


def hook(matcher: str) -> HookSettings:
    return HookSettings("h", matcher, "true")


def test_it_is_a_json_object_and_variables() -> None:
    given = use(command="ls -l", file_path="/x", other=1)
    assert orjson.loads(given.as_json()) == {
        "event": "PreToolUse",
        "hook_event_name": "PreToolUse",
        "session_id": "s-1",
        "cwd": "/project",
        "tool_name": "bash",
        "tool_input": {"command": "ls -l", "file_path": "/x", "other": 1},
    }
    assert given.variables() == {
        "CRUSH_EVENT": "PreToolUse",
        "CRUSH_TOOL_NAME": "bash",
        "CRUSH_SESSION_ID": "s-1",
        "CRUSH_CWD": "/project",
        "CRUSH_PROJECT_DIR": "/project",
        "CRUSH_TOOL_INPUT_COMMAND": "ls -l",
        "CRUSH_TOOL_INPUT_FILE_PATH": "/x",
    }


def test_only_texts_become_variables() -> None:
    assert set(use(command=["ls"], file_path=None).variables()) == set(use().variables())


@pytest.mark.parametrize(
    ("tool_input", "why"),
    [
        ({"command": "a\0b"}, "command contains a NUL character"),
        ({"file_path": "\ud800"}, "file_path contains characters that are not valid Unicode"),
        ({"command": "é" * 60_000}, "command is longer than 100,000 bytes"),
        ({"other": "\ud800"}, "its arguments cannot be written as JSON"),
        ({"other": 1 << 70}, "its arguments cannot be written as JSON"),
    ],
)
def test_what_cannot_be_shown_is_said(tool_input: dict[str, Any], why: str) -> None:
    with pytest.raises(CannotShowCall) as refused:
        use(**tool_input).as_json()
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("matcher", "name", "asked"),
    [
        ("", "bash", True),
        ("^bash$", "bash", True),
        ("Bash|Edit", "bash", True),
        ("edit", "multiedit", True),
        ("^edit$", "multiedit", False),
        ("^mcp_", "mcp_files_read", True),
        ("write", "bash", False),
    ],
)
def test_a_matcher_is_searched_for_in_the_name(matcher: str, name: str, asked: bool) -> None:
    assert bool(matching([hook(matcher)], name)) is asked
