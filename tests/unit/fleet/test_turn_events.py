"""A workspace's native stream becomes the events of the children's wire: exact, and in order."""

from typing import Any

from agents.fleet.child.turn_events import Translation

Json = dict[str, Any]


def message(message_id: str, *parts: Json, session: str = "s", role: str = "assistant") -> Json:
    return {"id": message_id, "session_id": session, "role": role, "parts": list(parts)}


def part(kind: str, **data: Any) -> Json:
    return {"type": kind, "data": data}


def item(kind: str, number: int | None = None, **data: Any) -> Json:
    return {"type": kind, "number": number, "data": data}


def events(translation: Translation, *items: Any) -> list[Json]:
    return [event for each in items for event in translation.take(each)]


def test_text_and_reasoning_are_sent_as_they_arrive() -> None:
    translation = Translation("s")
    assert events(
        translation,
        item("message.started", 1, message=message("m")),
        [1, 0, 0, "why", "reasoning"],
        [1, 1, 0, "be", "text"],
        [1, 1, 2, "cause"],
    ) == [
        {"type": "reasoning_token", "content": "why"},
        {"type": "token", "content": "be"},
        {"type": "token", "content": "cause"},
    ]
    assert translation.replies == 1


def test_a_text_that_arrives_twice_is_sent_once() -> None:
    translation = Translation("s")
    events(translation, item("message.started", 1, message=message("m")), [1, 0, 0, "abc", "text"])
    assert events(translation, [1, 0, 0, "abc"]) == []
    assert events(translation, [1, 0, 1, "bcd"]) == [{"type": "token", "content": "d"}]


def test_the_finished_message_supplies_what_a_gap_has_lost() -> None:
    translation = Translation("s")
    events(translation, item("message.started", 1, message=message("m")), [1, 0, 0, "a", "text"])
    assert events(translation, [1, 0, 5, "lost between"]) == []
    done = message("m", part("text", text="abcdef"))
    assert events(translation, item("message.finished", 9, message=done)) == [
        {"type": "token", "content": "bcdef"}
    ]
    assert translation.answer == "abcdef"
    assert translation.cursor == 9


def test_a_tool_call_is_sent_when_it_is_complete_and_then_its_result() -> None:
    translation = Translation("s")
    started = item("message.started", 1, message=message("m"))
    header = {"id": "c", "name": "ls"}
    assert events(translation, started, [1, 0, 0, '{"path":', header], [1, 0, 8, '"."}']) == []
    call = part("tool_call", id="c", name="ls", input='{"path":"."}')
    finished = item("message.finished", 2, message=message("m", call))
    result = part("tool_result", tool_call_id="c", content="a.py", is_error=False)
    created = item("message.created", 3, message=message("t", result, role="tool"))
    assert events(translation, finished, created) == [
        {
            "type": "tool_start",
            "tool_call_id": "c",
            "tool_name": "ls",
            "arguments": {"path": "."},
        },
        {
            "type": "tool_complete",
            "tool_call_id": "c",
            "result": {"success": True, "result": "a.py"},
        },
    ]


def test_arguments_that_are_no_json_stay_a_text() -> None:
    translation = Translation("s")
    call = part("tool_call", id="c", name="ls", input="{oops")
    started = item("message.started", 1, message=message("m"))
    finished = item("message.finished", 2, message=message("m", call))
    (event,) = events(translation, started, finished)
    assert event["arguments"] == "{oops"


def test_a_restarted_reply_is_the_same_round_and_a_message_of_another_session_is_none() -> None:
    translation = Translation("s")
    events(
        translation,
        item("message.started", 1, message=message("m")),
        item("message.restarted", 4, message=message("m")),
        item("message.started", 5, message=message("n", session="other")),
        item("message.started", 6, message=message("u", role="user")),
    )
    assert translation.replies == 1
    assert events(translation, [1, 0, 0, "of the first try", "text"]) == []
    assert events(translation, [4, 0, 0, "now", "text"]) == [{"type": "token", "content": "now"}]


def test_the_progress_of_an_open_message_is_sent_without_what_was_sent_before() -> None:
    translation = Translation("s")
    opening = item("stream.opened", number=None)
    opening["data"] = {"number": 7}
    open_message = message("m", part("text", text="half"))
    progress = {"type": "message.progress", "data": {"number": 5, "message": open_message}}
    assert events(translation, opening, progress) == [{"type": "token", "content": "half"}]
    assert events(translation, progress) == []
    assert translation.cursor == 7


def test_child_sessions_are_known_for_their_permission_requests() -> None:
    translation = Translation("s")
    child = {"id": "child", "parent_session_id": "s"}
    grandchild = {"id": "grandchild", "parent_session_id": "child"}
    stranger = {"id": "stranger", "parent_session_id": "x"}
    for number, session in enumerate((child, grandchild, stranger)):
        events(translation, item("session.created", number, session=session))
    assert translation.session_ids == {"s", "child", "grandchild"}
