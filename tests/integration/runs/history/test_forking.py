"""A fork begins as its original was at a message; marks of sessions."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from agents.runs.accept import PromptAttachment
from agents.runs.cancel import mark_deleted
from agents.runs.conversation import read_transcript
from agents.runs.steps import ReplyStart
from tests.integration.runs.ground import (
    Ground,
    begin,
    claim,
    end,
    held_by,
    open_ground,
    say,
    step,
    write,
)
from tests.integration.runs.history.session_history import messages, session, turn
from workspaces.actions.forks import fork_session
from workspaces.actions.sessions import add_usage, mark_session, replace_todos
from workspaces.log.errors import MessageUnknown, SessionUnknown
from workspaces.log.parts import plain_text
from workspaces.log.rows import for_v1
from workspaces.models import FileRead, Message, Session
from workspaces.queries.sessions import read_session


def fork(ground: Ground, **more: Any) -> Ground:
    made = write(lambda tx: fork_session(tx, ground.workspace_id, ground.session_id, **more))
    return Ground(ground.workspace_id, made["id"])


def texts(ground: Ground) -> list[tuple[str, str]]:
    found = [(message["role"], message["parts"]) for message in messages(ground)]
    return [(role, parts[0]["data"]["text"]) for role, parts in found]


def test_a_fork_has_copies_up_to_the_message_and_goes_on_alone(ground: Ground) -> None:
    first = turn(ground, "one")
    turn(ground, "two")
    original = messages(ground)

    made = fork(ground, message_id=first[1], title="The other way")

    assert texts(made) == [("user", "one"), ("assistant", "one: done")]
    assert not {m["id"] for m in messages(made)} & {m["id"] for m in original}
    forked = session(made)
    assert (forked.title, forked.forked_from) == ("The other way", ground.session_id)
    assert (forked.message_count, forked.cost, forked.is_busy) == (2, 0, False)
    turn(made, "elsewhere")
    assert len(texts(made)) == 4
    assert messages(ground) == original
    held = made.start("and on")
    read = read_transcript(made.session_id, held.key)
    assert [plain_text(message.parts) for message in read.messages][:2] == ["one", "one: done"]


def test_without_a_message_it_copies_all_that_is_finished(ground: Ground) -> None:
    turn(ground, "one")
    held = ground.start("two")
    step(held, start=ReplyStart("model", "provider"))
    made = fork(ground)
    assert texts(made) == [("user", "one"), ("assistant", "one: done"), ("user", "two")]
    assert session(made).title == session(ground).title
    assert not Message.objects.filter(session_id=made.session_id, is_finished=False).exists()


def test_the_log_has_what_a_reader_needs_to_copy_the_messages_itself(ground: Ground) -> None:
    first = turn(ground, "one")
    turn(ground, "two")
    made = fork(ground, message_id=first[0])
    (event,) = ground.events("session.forked")
    assert event["fork"] == {
        "message_id": first[0],
        "messages": [[first[0], messages(made)[0]["id"]]],
        "session_id": made.session_id,
        "source_session_id": ground.session_id,
    }
    created = ground.events("session.created")[-1]["session"]
    assert (created["id"], created["message_count"]) == (made.session_id, 1)
    assert created["forked_from"] == ground.session_id


def test_it_begins_with_the_figures_and_the_summary_of_that_moment(ground: Ground) -> None:
    todo = {"content": "c", "status": "pending", "active_form": "a"}
    replace = lambda todos: write(  # noqa: E731
        lambda tx: replace_todos(tx, ground.workspace_id, ground.session_id, todos=todos)
    )
    summary = turn(ground, "summarise")[1]
    Message.objects.filter(pk=summary).update(is_summary=True)
    replace([todo])
    second = turn(ground, "two")
    replace([])
    write(
        lambda tx: add_usage(tx, ground.session_id, context_tokens=70, summary_message_id=summary)
    )
    early, late = fork(ground, message_id=second[0]), fork(ground)
    assert session(early).todos == [todo]
    assert session(late).todos == []
    assert (session(early).context_tokens, session(late).context_tokens) == (0, 70)
    for made in (early, late):
        copied = Message.objects.get(pk=session(made).summary_message_id)
        assert (copied.session_id, copied.is_summary) == (made.session_id, True)


def test_it_may_change_the_files_that_the_original_had_read(ground: Ground) -> None:
    first = turn(ground, "one")
    ended = Message.objects.get(pk=first[1]).updated_at
    for path, read_at in (("/project/before", ended), ("/project/after", ended + 1)):
        FileRead.objects.create(
            session_id=ground.session_id, path=path, mtime_ns=5, size=6, read_at=read_at
        )
    made = fork(ground, message_id=first[1])
    (read,) = FileRead.objects.filter(session_id=made.session_id)
    assert (read.path, read.mtime_ns, read.size) == ("/project/before", 5, 6)


def test_attachments_are_shared_and_outlive_the_original(ground: Ground) -> None:
    content = "QUJD" * 2_000
    key = ground.accept("look", attachments=(PromptAttachment("a.png", "a", "image/png", content),))
    held = begin(held_by(key, *claim()))
    say(held, "seen")
    end(held)
    made = fork(ground)
    write(lambda tx: mark_deleted(tx, ground.workspace_id, ground.session_id))
    assert content in orjson.dumps(messages(made)).decode()


def test_what_is_unknown_cannot_be_forked(ground: Ground) -> None:
    other = open_ground("/other")
    (foreign, _) = turn(other, "theirs")
    with pytest.raises(MessageUnknown):
        fork(ground, message_id=foreign)
    with pytest.raises(SessionUnknown):
        fork(Ground(ground.workspace_id, other.session_id))
    assert Session.objects.count() == 2


def test_marks_are_set_and_removed_and_keep_the_place_in_the_lists(ground: Ground) -> None:
    def mark(**marks: bool) -> dict[str, Any]:
        return write(lambda tx: mark_session(tx, ground.workspace_id, ground.session_id, **marks))

    before = read_session(ground.workspace_id, ground.session_id)
    marked = mark(is_pinned=True, is_archived=True)
    assert marked["pinned_at"] > 0
    assert marked["archived_at"] > 0
    assert marked["updated_at"] == before["updated_at"]
    assert for_v1(marked) == for_v1(before)
    count = len(ground.events("session.updated"))
    assert mark(is_pinned=True) == marked
    assert len(ground.events("session.updated")) == count
    assert mark(is_archived=False)["archived_at"] == 0
    assert mark(is_pinned=False) == before
