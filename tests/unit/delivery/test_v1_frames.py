"""The ``/v1`` envelopes, against what its clients were recorded to receive."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.unit.delivery.v1_payloads import BATCH, MESSAGE, REQUEST, SESSION
from tests.unit.delivery.v1_recordings import RECORDED, envelope, run
from workspaces.delivery import v1_frames
from workspaces.log.rows import without_empty
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import Kind


def tell(kind: str, payload: dict[str, Any]) -> list[dict[str, Any]]:
    """A run's text is that of the message that ended before it."""
    words = payload.get("run", {}).get("text", "")
    part = {"type": "text", "data": {"text": words}}
    reply = {"id": payload.get("run", {}).get("message_id"), "parts": [part]}
    event = RecordedEvent("w", 1, kind, "s", payload, orjson.dumps(payload), 0)
    return read(v1_frames.frames_of(event, reply=reply))


def read(frames: bytes) -> list[dict[str, Any]]:
    if not frames:
        return []
    assert frames.endswith(b"\n\n")
    blocks = frames[:-2].split(b"\n\n")
    assert all(block.startswith(b"data: ") for block in blocks)
    assert all(len(block.decode().splitlines()) == 1 for block in blocks)
    return [orjson.loads(block[len(b"data: ") :]) for block in blocks]


UNTOLD = {
    Kind.WORKSPACE_OPENED,
    Kind.WORKSPACE_CLOSED,
    Kind.SESSION_FORKED,
    Kind.SESSION_REWIND_UNDONE,
    Kind.RUN_ACCEPTED,
    Kind.RUN_STARTED,
    Kind.RUN_PARKED,
    Kind.RUN_RESUMED,
    Kind.RUN_FOLDED,
    Kind.PERMISSION_OVERDUE,
    Kind.QUESTION_OVERDUE,
    Kind.GRANT_CREATED,
    Kind.GRANT_REVOKED,
    Kind.APPROVAL_POLICY_CHANGED,
    Kind.JOB_ENDED,
    Kind.RUN_UPDATED,
    Kind.QUEUE_REORDERED,
}


@pytest.mark.parametrize("name", RECORDED)
def test_it_tells_what_was_recorded(name: str) -> None:
    kind, payload, expected = RECORDED[name]

    assert tell(kind, payload) == expected
    assert tell(str(kind), payload) == expected  # as the log holds it


@pytest.mark.parametrize("kind", sorted(UNTOLD))
def test_the_rest_is_not_told(kind: Kind) -> None:
    assert tell(kind, {}) == []


def test_every_kind_is_either_told_or_left_out_on_purpose() -> None:
    told = {kind for kind, _, _ in RECORDED.values()}

    assert told.isdisjoint(UNTOLD)
    assert {kind for kind in Kind if kind not in told | UNTOLD} == set()


@pytest.mark.parametrize("kind", ["agent", "fetch", "summary"])
@pytest.mark.parametrize("outcome", ["completed", "cancelled", "failed"])
def test_the_end_of_a_run_that_no_prompt_began_is_not_told(kind: str, outcome: str) -> None:
    assert tell(Kind.RUN_FINISHED, run(outcome, kind=kind, run_id="", text="word0")) == []


@pytest.mark.parametrize("state", ["answered", "dismissed", "withdrawn"])
def test_a_batch_is_closed_for_clients_however_it_ended(state: str) -> None:
    told = tell(Kind.QUESTION_RESOLVED, {"batch_id": "b", "session_id": "s", "state": state})

    assert told == [envelope("question_batch_notification", "created", {"batch_id": "b"})]


def test_fields_of_native_clients_are_left_out() -> None:
    native = {**REQUEST, "files": ["/a"], "always_asks": True, "asked_at": 1, "deny_at": 2}
    expected = tell(Kind.PERMISSION_REQUESTED, {"request": REQUEST})

    assert tell(Kind.PERMISSION_REQUESTED, {"request": native}) == expected
    resolved = {"tool_call_id": "c", "granted": False, "denied": True}
    assert tell(
        Kind.PERMISSION_RESOLVED,
        {**resolved, "session_id": "s", "state": "denied", "author": {"name": "a"}, "reason": "r"},
    ) == [envelope("permission_notification", "created", resolved)]


def test_a_client_that_comes_later_is_asked_with_the_same_envelope() -> None:
    assert read(v1_frames.question_frame(BATCH)) == tell(Kind.QUESTION_ASKED, {"batch": BATCH})
    assert read(v1_frames.permission_frames(REQUEST)) == tell(
        Kind.PERMISSION_REQUESTED, {"request": REQUEST}
    )


def test_a_session_has_every_field_also_those_that_the_log_leaves_out() -> None:
    session = {**SESSION, "is_busy": False, "cost": 0.0, "parent_session_id": "", "title": ""}
    brief = without_empty(session)

    (told,) = tell(Kind.SESSION_UPDATED, {"session": brief})

    assert {"is_busy", "cost", "parent_session_id"}.isdisjoint(brief)
    assert brief["title"] == ""
    assert told == envelope("session", "updated", session)


def test_the_author_of_a_prompt_is_left_out() -> None:
    ann = {"kind": "user", "name": "ann", "user_id": "7"}
    authored = {"message": {**MESSAGE, "author": ann}}

    assert tell(Kind.MESSAGE_CREATED, authored) == tell(Kind.MESSAGE_CREATED, {"message": MESSAGE})
    ended = run("cancelled")["run"]
    cancelled = {"run": {**ended, "author": ann, "cancelled_by": ann}}
    assert tell(Kind.RUN_FINISHED, cancelled) == tell(Kind.RUN_FINISHED, {"run": ended})


def test_an_unknown_kind_is_passed_over() -> None:
    assert tell("future.happened", {}) == []


def test_an_open_message_is_an_update() -> None:
    assert read(v1_frames.open_message_frame(orjson.dumps(MESSAGE))) == [
        envelope("message", "updated", MESSAGE)
    ]


def test_line_breaks_in_a_text_do_not_end_an_envelope() -> None:
    message = {**MESSAGE, "parts": [{"type": "text", "data": {"text": "a\n\nb\r\n"}}]}

    (told,) = read(v1_frames.open_message_frame(orjson.dumps(message)))

    assert told["payload"]["payload"]["parts"][0]["data"]["text"] == "a\n\nb\r\n"


def test_the_heartbeat_is_a_blank_line() -> None:
    assert v1_frames.HEARTBEAT == b"\n"


def test_what_some_readers_take_for_line_breaks_is_escaped() -> None:
    text = "a\u2028b\u2029c\x85d"
    (told,) = tell(Kind.SESSION_UPDATED, {"session": {**SESSION, "title": text}})
    assert told["payload"]["payload"]["title"] == text
    message = orjson.dumps({"id": "m", "parts": [{"type": "text", "data": {"text": text}}]})
    (told,) = read(v1_frames.open_message_frame(message))
    assert told["payload"]["payload"] == orjson.loads(message)


@pytest.mark.parametrize("reply", [None, {"id": "m2", "parts": []}])
def test_a_runs_end_never_has_another_messages_words(reply: Any) -> None:
    if reply is not None:
        reply["parts"] = [{"type": "text", "data": {"text": "words of another message"}}]
    payload = {"run": {"session_id": "s1", "message_id": "m1", "outcome": "cancelled"}}
    event = RecordedEvent("w", 1, Kind.RUN_FINISHED, "s", payload, orjson.dumps(payload), 0)

    (complete,) = read(v1_frames.frames_of(event, reply=reply))

    assert "text" not in complete["payload"]["payload"]
