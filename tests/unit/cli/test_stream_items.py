"""The client's items, shown as the native stream contains them."""

from typing import Any

from crushclient import StreamLost
from crushclient.stream_fold import StreamFold
from crushsite.cli.session import wire_of

MESSAGE = {"id": "m", "session_id": "s", "role": "assistant", "parts": []}
CALL = {"id": "c", "name": "view"}
ITEMS: list[Any] = [
    {"type": "stream.opened", "data": {"number": 4}},
    {"number": 5, "type": "message.started", "data": {"message": MESSAGE}},
    [5, 0, 0, "Good", "text"],
    [5, 0, 4, "bye"],
    [5, 1, 0, "{", CALL],
    [5, 1, 1, "}"],
    {
        "type": "tool.output",
        "data": {"session_id": "s", "message_id": "m", "tool_call_id": "c", "text": "1\n"},
    },
    {"number": 6, "type": "run.finished", "data": {"run": {"session_id": "s"}}},
    {"type": "later.kind", "data": {"a": 1}},
]


def test_items_have_the_form_of_the_native_stream() -> None:
    fold = StreamFold()
    assert [wire_of(item) for raw in ITEMS for item in fold.take(raw)] == ITEMS


def test_an_open_message_is_shown_as_its_progress() -> None:
    message = {**MESSAGE, "parts": [{"type": "text", "data": {"text": "Go"}}]}
    progress = {"type": "message.progress", "data": {"number": 3, "message": message}}
    (item,) = StreamFold(4).take(progress)
    assert wire_of(item) == progress


def test_what_the_server_did_not_send_is_left_out() -> None:
    assert wire_of(StreamLost("gone", 0.2)) is None
