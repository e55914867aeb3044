"""The parts of a message and their wire form."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspaces.log.parts import (
    Binary,
    Finish,
    FinishReason,
    ImageUrl,
    Part,
    Reasoning,
    Role,
    ShellCommand,
    Text,
    ToolCall,
    ToolResult,
    finish_of,
    part_from_wire,
    part_to_wire,
    parts_from_wire,
    parts_to_wire,
    plain_text,
    tool_calls,
    with_finish,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.integers(-(2**53), 2**53)
parts = st.one_of(
    st.builds(Text, texts),
    st.builds(Reasoning, texts, texts, numbers, numbers),
    st.builds(ImageUrl, texts, texts),
    st.builds(Binary, texts, texts, texts),
    st.builds(ToolCall, texts, texts, texts, st.booleans()),
    st.builds(ToolResult, texts, texts, texts, texts, st.booleans(), texts, texts),
    st.builds(Finish, st.sampled_from(FinishReason), numbers, texts, texts),
    st.builds(ShellCommand, texts, texts, numbers),
)

RECORDED: list[tuple[Part, dict[str, Any]]] = [
    (Text("hello"), {"type": "text", "data": {"text": "hello"}}),
    (Finish(FinishReason.STOP), {"type": "finish", "data": {"reason": "stop", "time": 0}}),
    (
        Finish(FinishReason.CANCELED, 1794993637, "User canceled request"),
        {
            "type": "finish",
            "data": {"message": "User canceled request", "reason": "canceled", "time": 1794993637},
        },
    ),
    (
        ToolCall("call_1395_0", "bash"),
        {"type": "tool_call", "data": {"id": "call_1395_0", "input": "", "name": "bash"}},
    ),
    (
        ToolCall("call_1395_0", "bash", '{"command": "touch made.txt"}', finished=True),
        {
            "type": "tool_call",
            "data": {
                "finished": True,
                "id": "call_1395_0",
                "input": '{"command": "touch made.txt"}',
                "name": "bash",
            },
        },
    ),
    (
        ToolResult("call_1395_0", "bash", "no output", '{"start_time": 1}'),
        {
            "type": "tool_result",
            "data": {
                "content": "no output",
                "is_error": False,
                "metadata": '{"start_time": 1}',
                "name": "bash",
                "tool_call_id": "call_1395_0",
            },
        },
    ),
    (
        ToolResult("c", "view", "", data="iVBO", mime_type="image/png", is_error=True),
        {
            "type": "tool_result",
            "data": {
                "content": "",
                "is_error": True,
                "metadata": "",
                "name": "view",
                "tool_call_id": "c",
                "data": "iVBO",
                "mime_type": "image/png",
            },
        },
    ),
    (
        Binary("note.txt", "text/plain", "aGVsbG8gbm90ZQ=="),
        {
            "type": "binary",
            "data": {"Data": "aGVsbG8gbm90ZQ==", "MIMEType": "text/plain", "Path": "note.txt"},
        },
    ),
    (
        Reasoning("hm", started_at=5, finished_at=6),
        {
            "type": "reasoning",
            "data": {"thinking": "hm", "signature": "", "started_at": 5, "finished_at": 6},
        },
    ),
    (ImageUrl("http://x/y.png"), {"type": "image_url", "data": {"url": "http://x/y.png"}}),
    (
        ShellCommand("ls", "a\n", 0),
        {"type": "shell_command", "data": {"command": "ls", "output": "a\n", "exit_code": 0}},
    ),
]


@pytest.mark.parametrize(("part", "wire"), RECORDED, ids=lambda v: getattr(v, "kind", ""))
def test_it_speaks_the_recorded_wire(part: Part, wire: dict[str, Any]) -> None:
    assert part_to_wire(part) == wire
    assert part_from_wire(wire) == part


@given(st.lists(parts, max_size=8).map(tuple))
def test_what_is_written_is_read_back_through_json(many: tuple[Part, ...]) -> None:
    stored = orjson.dumps(parts_to_wire(many))

    assert parts_from_wire(orjson.loads(stored)) == many


@pytest.mark.parametrize(
    "kind",
    ["text", "reasoning", "image_url", "binary", "tool_call", "tool_result", "shell_command"],
)
def test_absent_fields_are_empty(kind: str) -> None:
    part = part_from_wire({"type": kind, "data": {}})

    assert part.kind == kind
    assert part_from_wire(part_to_wire(part)) == part


def test_unknown_fields_are_left_out() -> None:
    assert part_from_wire({"type": "text", "data": {"text": "a", "b": [1]}, "c": 2}) == Text("a")


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({}, "data must be an object"),
        ({"type": "text"}, "data must be an object"),
        ({"type": "text", "data": None}, "data must be an object"),
        ({"type": "text", "data": [1]}, "data must be an object"),
        ({"type": "text", "data": "text"}, "data must be an object"),
        ({"data": {}}, "unknown type None"),
        ({"type": "TEXT", "data": {}}, "unknown type 'TEXT'"),
        ({"type": ["text"], "data": {}}, "unknown type"),
        ({"type": {}, "data": {}}, "unknown type"),
        ({"type": "text", "data": {"text": 1}}, "text must be a string"),
        ({"type": "text", "data": {"text": None}}, "text must be a string"),
        ({"type": "text", "data": {"text": b"a"}}, "text must be a string"),
        ({"type": "reasoning", "data": {"started_at": "1"}}, "started_at must be an integer"),
        ({"type": "reasoning", "data": {"started_at": 1.5}}, "started_at must be an integer"),
        ({"type": "finish", "data": {"reason": "stop", "time": True}}, "time must be an integer"),
        ({"type": "finish", "data": {"reason": "stop", "time": None}}, "time must be an integer"),
        ({"type": "finish", "data": {"reason": "bored"}}, "bored"),
        ({"type": "finish", "data": {}}, "FinishReason"),
        ({"type": "tool_call", "data": {"finished": 1}}, "finished must be true or false"),
        ({"type": "tool_call", "data": {"input": {}}}, "input must be a string"),
        ({"type": "tool_result", "data": {"is_error": "no"}}, "is_error must be true or false"),
        ({"type": "shell_command", "data": {"exit_code": "0"}}, "exit_code must be an integer"),
    ],
)
def test_a_wrong_type_is_refused_by_name(raw: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        part_from_wire(raw)


@pytest.mark.parametrize("raw", [None, 1, "text", ["type", "text"]])
def test_what_is_no_object_is_refused(raw: Any) -> None:
    with pytest.raises(ValueError, match="must be an object"):
        parts_from_wire([raw])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
field_names = st.sampled_from(
    [
        "text",
        "thinking",
        "signature",
        "started_at",
        "url",
        "Path",
        "id",
        "name",
        "input",
        "finished",
        "content",
        "metadata",
        "is_error",
        "reason",
        "time",
        "command",
        "exit_code",
    ]
)
kinds = st.sampled_from([part.kind for part, _ in RECORDED])
hostile = json_values | st.fixed_dictionaries(
    {"type": kinds | json_values, "data": st.dictionaries(field_names, json_values) | json_values}
)


@given(hostile)
def test_anything_else_is_read_or_refused_and_never_breaks(raw: Any) -> None:
    try:
        read = part_from_wire(raw)
    except ValueError:
        return
    assert part_from_wire(part_to_wire(read)) == read


def test_the_plain_text_leaves_everything_else_out() -> None:
    assert plain_text([Text("a"), Reasoning("b"), ToolCall("c", "d"), Text("e")]) == "ae"


def test_the_calls_come_in_their_order() -> None:
    calls = (ToolCall("1", "a"), ToolCall("2", "b"))

    assert tool_calls([calls[0], Text("x"), calls[1]]) == calls


def test_an_open_message_has_no_finish() -> None:
    assert finish_of([Text("a")]) is None


def test_a_new_finish_replaces_the_old_one_and_stands_last() -> None:
    old, new = Finish(FinishReason.TOOL_USE), Finish(FinishReason.CANCELED)

    finished = with_finish([old, Text("a")], new)

    assert finished == (Text("a"), new)
    assert finish_of(finished) == new


def test_the_reasons_and_roles_are_those_of_the_wire() -> None:
    assert {reason.value for reason in FinishReason} == {
        "end_turn",
        "max_tokens",
        "tool_use",
        "canceled",
        "error",
        "content_filter",
        "unknown",
        "stop",
    }
    assert {role.value for role in Role} == {"user", "assistant", "tool", "system"}


def test_no_other_part_is_written() -> None:
    class Stranger:
        kind = "stranger"

    with pytest.raises(AssertionError):
        part_to_wire(Stranger())  # type: ignore[arg-type]
