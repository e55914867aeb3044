"""Frames of the sub-agent wire: what is read, what is refused, and what is written."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.fleet.wire.codec import (
    BadFrame,
    read_child_frame,
    read_parent_frame,
    write_event,
    write_frame,
)
from agents.fleet.wire.frames import (
    ApprovalReply,
    ApprovalRequest,
    Cancel,
    EventBatch,
    EventFrame,
    MessageFrame,
    Other,
    RunFrame,
    Status,
    Terminal,
)

ID = "sa-673764ab-1c06-4819-8b7a-25e84dfc9d11"

FROM_PARENTS = {
    '{"kind":"run","assignment":"alpha beta gamma"}': RunFrame("alpha beta gamma"),
    '{"kind":"run","assignment":"a","reasoning_effort":"high",'
    '"messages":[{"content":"hi","role":"user"}]}': RunFrame(
        "a", "high", ({"content": "hi", "role": "user"},)
    ),
    '{"kind":"cancel"}': Cancel(),
    '{"kind":"message","text":"change course ünïcode"}': MessageFrame("change course ünïcode"),
    f'{{"kind":"approval_reply","id":"{ID}","approved":true}}': ApprovalReply(ID, True),
}
FROM_CHILDREN = {
    '{"kind":"event","event":{"content":"alpha ","type":"token"}}': EventFrame(
        {"content": "alpha ", "type": "token"}
    ),
    '{"kind":"event","event":{"type":"complete"}}': EventFrame({"type": "complete"}),
    f'{{"kind":"approval_request","id":"{ID}","body":{{"permission_type":"WriteFile",'
    '"question":"May Write touch /srv/x?","resource":"/srv/x","tool_name":"Write"}}': (
        ApprovalRequest(
            ID,
            {
                "permission_type": "WriteFile",
                "question": "May Write touch /srv/x?",
                "resource": "/srv/x",
                "tool_name": "Write",
            },
        )
    ),
    '{"kind":"terminal","status":"completed","result":"echo: alpha beta gamma"}': Terminal(
        Status.COMPLETED, result="echo: alpha beta gamma"
    ),
    '{"kind":"terminal","status":"cancelled"}': Terminal(Status.CANCELLED),
    '{"kind":"terminal","status":"error","error":"boom"}': Terminal(Status.ERROR, error="boom"),
    '{"kind":"terminal","status":"suspended","transcript":[{"content":"__suspend","role":"user"},'
    '{"content":"waiting on children","role":"assistant"}]}': Terminal(
        Status.SUSPENDED,
        transcript=(
            {"content": "__suspend", "role": "user"},
            {"content": "waiting on children", "role": "assistant"},
        ),
    ),
    '{"kind":"event_batch","batch":{"activation_id":"act-1","execution_epoch":7,"first_seq":4,'
    '"last_seq":4,"qos":"durable","events":[{"type":"complete"}]}}': EventBatch(
        "act-1", 7, 4, 4, "durable", ({"type": "complete"},)
    ),
}


@pytest.mark.parametrize(("text", "frame"), FROM_PARENTS.items())
def test_a_parents_frame_is_read_and_written_as_captured(text: str, frame: Any) -> None:
    assert read_parent_frame(text) == frame
    assert write_frame(frame).decode() == text


@pytest.mark.parametrize(("text", "frame"), FROM_CHILDREN.items())
def test_a_childs_frame_is_read_and_written_as_captured(text: str, frame: Any) -> None:
    assert read_child_frame(text) == frame
    assert write_frame(frame).decode() == text


@pytest.mark.parametrize(
    ("text", "frame"),
    {
        '{"text":"hi","kind":"message"}': MessageFrame("hi"),
        ' \r\n\t{"kind" : "cancel"}\n ': Cancel(),
        '{"kind":"cancel","reason":{"deep":[1]}}': Cancel(),
        '{"kind":"cancel","extra":1,"extra":2}': Cancel(),
        '{"kind":"run","assignment":"","reasoning_effort":null}': RunFrame(""),
        '{"kind":"run","assignment":"a","messages":[]}': RunFrame("a"),
        '{"kind":"run","assignment":"a","messages":[1,null,"x",[]]}': RunFrame(
            "a", messages=(1, None, "x", [])
        ),
        '["cancel"]': Cancel(),
        '["message","hi"]': MessageFrame("hi"),
        '["run","a"]': RunFrame("a"),
        '["run","a",null,[1]]': RunFrame("a", messages=(1,)),
        '["approval_reply","i",false]': ApprovalReply("i", False),
        '{"kind":"message","text":"\\u0000"}': MessageFrame("\0"),
        '{"kind":"message","text":"\\ud83d\\ude00"}': MessageFrame("\N{GRINNING FACE}"),
        '{"kind":"message","text":"😀"}': MessageFrame("\N{GRINNING FACE}"),
        '{"\\u006bind":"cancel"}': Cancel(),
    }.items(),
)
def test_an_odd_but_valid_spelling_is_accepted(text: str, frame: Any) -> None:
    assert read_parent_frame(text) == frame


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "hello",
        "{",
        "1",
        '"cancel"',
        "null",
        "true",
        "{}",
        "[]",
        "[[]]",
        '["cancel",1]',
        '["message"]',
        '["message","hi","more"]',
        '["run",1]',
        '["run","a",null,null]',
        '{"kind":"nope"}',
        '{"kind":"Run","assignment":"a"}',
        '{"kind":"CANCEL"}',
        '{"kind":null}',
        '{"kind":1}',
        '{"type":"cancel"}',
        '{"kind":"run"}',
        '{"kind":"run","assignment":null}',
        '{"kind":"run","assignment":7}',
        '{"kind":"run","assignment":"a","messages":null}',
        '{"kind":"run","assignment":"a","messages":{}}',
        '{"kind":"run","assignment":"a","reasoning_effort":1}',
        '{"kind":"message"}',
        '{"kind":"message","text":null}',
        '{"kind":"approval_reply","id":"x"}',
        '{"kind":"approval_reply","id":"x","approved":1}',
        '{"kind":"approval_reply","id":"x","approved":"yes"}',
        '{"kind":"approval_reply","id":1,"approved":true}',
        '{"kind":"cancel","kind":"cancel"}',
        '{"kind":"message","text":"a","text":"b"}',
        '{"kind":"cancel"} x',
        '{"kind":"cancel"}{"kind":"cancel"}',
        '\ufeff{"kind":"cancel"}',
        '{"kind":"message","text":"\\ud800"}',
        '{"kind":"message","text":"\\udc00\\ud800"}',
        '{"kind":"message","text":"\ud800"}',
        '{"kind":"cancel","x":"\\udfff"}',
        '{"kind":"cancel","x":NaN}',
        '{"kind":"cancel","x":Infinity}',
        '{"kind":"cancel","x":-Infinity}',
        '{"kind":"cancel","x":1e400}',
        '{"kind":"cancel","x":' + "9" * 400 + "}",
        '{"kind":"cancel","x":01}',
        '{"kind":"cancel","x":"a\nb"}',
        "{'kind':'cancel'}",
        '{"kind":"cancel",}',
        '{"kind":"cancel","x":' + "[" * 128 + "]" * 128 + "}",
        '{"kind":"cancel","x":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"kind":"event","event":1}',
        '{"kind":"terminal","status":"completed"}',
        '\x0b{"kind":"cancel"}',
        '\u00a0{"kind":"cancel"}',
    ],
)
def test_what_the_other_parser_refuses_is_refused(text: str) -> None:
    with pytest.raises(BadFrame) as refusal:
        read_parent_frame(text)
    assert "completed" not in str(refusal.value)


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        '{"kind":"event"}',
        '{"kind":"heartbeat"}',
        '{"kind":"approval_request","id":"x"}',
        '{"kind":"terminal"}',
        '{"kind":"terminal","status":"Completed"}',
        '{"kind":"terminal","status":"done"}',
        '{"kind":"terminal","status":"completed","result":1}',
        '{"kind":"terminal","status":"suspended","transcript":null}',
        '{"kind":"event_batch","batch":{}}',
        '{"kind":"event_batch","batch":{"activation_id":"a","execution_epoch":-1,"first_seq":1,'
        '"last_seq":1,"qos":"durable","events":[]}}',
        '{"kind":"event_batch","batch":{"activation_id":"a","execution_epoch":1,"first_seq":1,'
        '"last_seq":1,"qos":"other","events":[]}}',
        '{"kind":"event_batch","batch":{"activation_id":"a","execution_epoch":1,"first_seq":true,'
        '"last_seq":1,"qos":"durable","events":[]}}',
        '{"kind":"event_batch","batch":{"activation_id":"a","execution_epoch":false,"first_seq":1,'
        '"last_seq":1,"qos":"durable","events":[]}}',
        '{"kind":"run","assignment":"a"}',
    ],
)
def test_a_parent_is_told_of_a_childs_bad_frame(text: str) -> None:
    with pytest.raises(BadFrame):
        read_child_frame(text)


def test_null_is_an_event_and_a_body_but_their_absence_is_not() -> None:
    assert read_child_frame('{"kind":"event","event":null}') == EventFrame(None)
    assert read_child_frame('{"kind":"approval_request","id":"x","body":null}') == ApprovalRequest(
        "x", None
    )
    assert write_event(None) == b'{"kind":"event","event":null}'


def test_a_terminals_nulls_read_as_absent() -> None:
    text = '{"kind":"terminal","status":"completed","result":null,"error":null}'
    assert read_child_frame(text) == Terminal(Status.COMPLETED)


def test_opaque_objects_are_written_with_sorted_keys_and_compact() -> None:
    event = {"b": [{"z": 1, "a": 2}], "a": {"ü": 1, "b": None}}
    assert write_event(event).decode() == (
        '{"kind":"event","event":{"a":{"b":null,"ü":1},"b":[{"a":2,"z":1}]}}'
    )


def test_an_empty_result_is_written_and_an_empty_transcript_is_not() -> None:
    assert write_frame(Terminal(Status.COMPLETED, result="")) == (
        b'{"kind":"terminal","status":"completed","result":""}'
    )


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2.0**64),
        ("-9223372036854775808", -(2**63)),
        ("-9223372036854775809", -(2.0**63)),
        ("1.0", 1.0),
        ("1e2", 100.0),
        ("-0", -0.0),
    ],
)
def test_numbers_are_those_of_the_other_end(written: str, read: float) -> None:
    frame = read_child_frame(f'{{"kind":"event","event":{written}}}')
    assert isinstance(frame, EventFrame)
    assert (frame.event, type(frame.event)) == (read, type(read))
    assert math.copysign(1, frame.event) == math.copysign(1, read)


def test_a_frame_as_deep_as_the_other_end_reads_is_read() -> None:
    deep = "[" * 126 + "]" * 126
    assert isinstance(read_child_frame(f'{{"kind":"event","event":{deep}}}'), EventFrame)


def test_the_newer_versions_frames_are_known_and_kept() -> None:
    run = (
        '{"kind":"run","assignment":"a","project_id":"p","execution_epoch":7,'
        '"secrets":{"codex_provider_token":"t0ken"}}'
    )
    frame = read_parent_frame(run)
    assert isinstance(frame, RunFrame)
    assert frame.more == {
        "project_id": "p",
        "execution_epoch": 7,
        "secrets": {"codex_provider_token": "t0ken"},
    }
    assert "t0ken" not in repr(frame)
    assert write_frame(frame).decode() == run
    for text in (
        '{"kind":"session_message","delivery":{"target_session_id":"s"}}',
        '{"kind":"initial_input_release","release":null}',
        '{"kind":"owned_tree_reply","id":"1"}',
        '{"kind":"sub_agent_reply","id":"1","result":{"ok":true}}',
    ):
        other = read_parent_frame(text)
        assert isinstance(other, Other)
        assert write_frame(other).decode() == text
    for text in (
        '{"kind":"owned_tree_request","id":"1","cursor":"c"}',
        '{"kind":"sub_agent_request","id":"1","tool_call_id":"t","args":null}',
        '{"kind":"session_message_admitted","confirmation":{}}',
    ):
        other = read_child_frame(text)
        assert isinstance(other, Other)
        assert write_frame(other).decode() == text
    with pytest.raises(BadFrame):
        read_parent_frame('{"kind":"session_message"}')


def test_a_terminal_keeps_its_watermark() -> None:
    text = '{"kind":"terminal","status":"cancelled","final_event_watermark":{"final_seq":3}}'
    assert write_frame(read_child_frame(text)).decode() == text


def test_half_characters_and_huge_numbers_are_made_sendable() -> None:
    frame = read_child_frame(write_event({"a\ud800": "x\udfffy", "n": 10**400}).decode())
    assert frame == EventFrame({"a\ufffd": "x\ufffdy", "n": 1e308})
    assert write_frame(MessageFrame("\ud800")).decode() == '{"kind":"message","text":"\ufffd"}'


def test_what_is_no_json_is_not_written() -> None:
    with pytest.raises(TypeError):
        write_event({"a": object()})
    deep: Any = 1
    for _ in range(130):
        deep = [deep]
    with pytest.raises(ValueError, match="deeply"):
        write_event(deep)


_TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)
_ITEMS = st.lists(_JSON, max_size=3).map(tuple)
_PARENT = st.one_of(
    st.builds(RunFrame, _TEXT, st.none() | _TEXT, _ITEMS),
    st.just(Cancel()),
    st.builds(MessageFrame, _TEXT),
    st.builds(ApprovalReply, _TEXT, st.booleans()),
)
_CHILD = st.one_of(
    st.builds(EventFrame, _JSON),
    st.builds(ApprovalRequest, _TEXT, _JSON),
    st.builds(Terminal, st.sampled_from(Status), st.none() | _TEXT, st.none() | _TEXT, _ITEMS),
    st.builds(
        EventBatch,
        _TEXT,
        st.integers(0, 2**64 - 1),
        st.integers(0, 100),
        st.integers(0, 100),
        st.sampled_from(["durable", "snapshot", "ephemeral"]),
        _ITEMS,
    ),
)


@given(_PARENT)
def test_a_parents_frame_survives_the_wire(frame: Any) -> None:
    assert read_parent_frame(write_frame(frame).decode()) == frame


@given(_CHILD)
def test_a_childs_frame_survives_the_wire(frame: Any) -> None:
    written = write_frame(frame)
    assert read_child_frame(written.decode()) == frame
    assert write_frame(read_child_frame(written.decode())) == written


@given(_CHILD, st.randoms())
def test_the_order_of_keys_does_not_matter(frame: Any, random: Any) -> None:
    fields = list(json.loads(write_frame(frame)).items())
    random.shuffle(fields)
    assert read_child_frame(json.dumps(dict(fields))) == frame


@given(st.text(max_size=200))
def test_any_text_is_a_frame_or_a_refusal(text: str) -> None:
    for read in (read_parent_frame, read_child_frame):
        try:
            read(text)
        except BadFrame:
            continue
