"""Messages as a person reads them at a terminal."""

import json

import pytest

from crushsite.client import transcript
from crushsite.client.plain_transcript import lines_of_message
from crushsite.client.screen import rendered

HOSTILE = "a\x1b]0;owned\x07b\x1b[2Jc\x9b1md\u202ee"


def drawn(part: object, width: int = 60) -> str:
    return rendered(part, width)


def message(role: str, *parts: dict) -> dict:
    return {"id": "m", "role": role, "parts": list(parts)}


def text(words: str) -> dict:
    return {"type": "text", "data": {"text": words}}


@pytest.mark.parametrize(
    ("words", "finished"),
    [
        ("one line", ""),
        ("one\n\ntwo", "one\n\n"),
        ("one\n\n- a\n- b\n", "one\n\n"),  # the list may go on
        ("```\ncode\n\nmore", ""),  # a blank line does not end code
        ("```\ncode\n```\nafter", "```\ncode\n```\n"),
        ("# Head\ntext", "# Head\n"),
        ("| a |\n|---|\n| 1 |\n\nend", "| a |\n|---|\n| 1 |\n\n"),
        ("", ""),
    ],
)
def test_only_complete_blocks_are_finished(words: str, finished: str) -> None:
    assert words[: transcript.finished_length(words)] == finished


@pytest.mark.parametrize("size", range(1, 60))
def test_a_growing_text_is_split_without_loss(size: int) -> None:
    words = "# T\n\nsome *text*\n\n1. a\n2. b\n\n```py\nx = 1\n\ny = 2\n```\n\nend"
    shown = transcript.finished_length(words[:size])
    assert transcript.finished_length(words) >= shown


def test_nothing_controls_the_terminal() -> None:
    result = {"type": "tool_result", "data": {"content": HOSTILE, "is_error": False}}
    metadata = json.dumps({"old_content": "a\n", "new_content": HOSTILE})
    change = {"type": "tool_result", "data": {"content": "", "metadata": metadata}}
    call = {
        "type": "tool_call",
        "data": {"name": HOSTILE, "input": json.dumps({"command": HOSTILE})},
    }
    finish = {"type": "finish", "data": {"reason": "error", "message": HOSTILE, "details": HOSTILE}}
    author = {"author": {"name": HOSTILE}}
    command = {"type": "shell_command", "data": {"command": HOSTILE, "output": HOSTILE}}
    parts = [
        transcript.user_message({**message("user", text(HOSTILE)), **author}),
        transcript.reply(
            f"{HOSTILE} [link](http://x/{HOSTILE}) `{HOSTILE}`\n\n```\n{HOSTILE}\n```"
        ),
        *transcript.tool_results(message("tool", result, change)),
        *transcript.tool_calls(message("assistant", call)),
        transcript.finish_note(message("assistant", finish)),
        *transcript.shell_command(message("user", command)),
        *transcript.outputs({"1": HOSTILE}, lines=3),
    ]
    shown = "".join(drawn(part) for part in parts)
    plain_lines = "\n".join(
        line
        for role in ("user", "assistant", "tool")
        for line in lines_of_message(message(role, text(HOSTILE), call, result, finish, command))
    )
    for sequence in ("\x1b]", "\x07", "\x1b[2J", "\x9b", "\u202e"):
        assert sequence not in shown
        assert sequence not in plain_lines
    assert "owned" in shown
    assert "\x1b" not in plain_lines


def test_markup_of_the_library_is_text() -> None:
    assert "[bold]x[/bold]" in drawn(
        transcript.user_message(message("user", text("[bold]x[/bold]")))
    )


def test_the_address_of_a_link_is_visible() -> None:
    assert "http://evil.example" in drawn(transcript.reply("[good](http://evil.example)"))


def test_a_diff_is_shown_with_its_changes() -> None:
    metadata = {"old_content": "one\ntwo\n", "new_content": "one\n2\n"}
    result = {"type": "tool_result", "data": {"content": "ok", "metadata": json.dumps(metadata)}}
    (part,) = transcript.tool_results(message("tool", result))
    lines = drawn(part)
    assert "-two" in lines
    assert "+2" in lines


def test_no_colours_if_the_user_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    part = transcript.user_message(message("user", text("x")))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[" in drawn(part)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in drawn(part)
