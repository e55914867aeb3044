"""Rewinding a session to a message, with and without files, and undoing that."""

from __future__ import annotations

import orjson
import pytest

from agents.runs.accept import PromptAttachment
from agents.runs.cancel import mark_deleted
from agents.runs.conversation import read_transcript
from tests.integration.runs.ground import (
    Ground,
    begin,
    claim,
    end,
    held_by,
    open_ground,
    say,
    write,
)
from tests.integration.runs.history.session_history import (
    ACTOR,
    go_back,
    ids,
    messages,
    next_run,
    session,
    turn,
    undo,
)
from workspaces.actions.messages import start_command_message
from workspaces.actions.sessions import add_usage, create_session, replace_todos
from workspaces.delivery import v1_frames
from workspaces.log.errors import (
    MessageUnknown,
    RewindOutdated,
    RewindUnknown,
    SessionBusy,
    SessionUnknown,
)
from workspaces.log.parts import ShellCommand, plain_text
from workspaces.log.transaction import RecordedEvent
from workspaces.models import (
    Message,
    RemovedMessage,
    Rewind,
    Session,
)


def test_the_messages_after_it_go_and_come_back(ground: Ground) -> None:
    first, second, third = (turn(ground, text) for text in ("one", "two", "three"))
    before, count = messages(ground), session(ground).message_count

    rewound = go_back(ground, first[1])

    assert ids(ground) == first
    assert session(ground).message_count == 2
    assert rewound["message_id"] == first[1]
    assert (rewound["state"], rewound["author"]) == ("done", ACTOR.author())
    (event,) = ground.events("session.rewound")
    assert event["rewind"]["message_ids"] == [*second, *third]

    undone = undo(ground, rewound["id"])

    assert messages(ground) == before
    assert session(ground).message_count == count
    assert (undone["state"], undone["undone_by"]) == ("undone", ACTOR.author())
    (event,) = ground.events("session.rewind_undone")
    assert event["rewind"]["id"] == rewound["id"]
    assert not RemovedMessage.objects.exists()


def test_it_goes_before_a_message_or_to_the_start(ground: Ground) -> None:
    first, second = turn(ground, "one"), turn(ground, "two")
    assert go_back(ground, second[0], keeps_message=False)["message_id"] == first[1]
    assert ids(ground) == first
    assert go_back(ground)["message_id"] == ""
    assert ids(ground) == []
    assert session(ground).message_count == 0


def test_the_next_run_gets_the_shorter_conversation(ground: Ground) -> None:
    first = turn(ground, "one")
    turn(ground, "two")
    go_back(ground, first[1])
    held = ground.start("instead")
    read = read_transcript(ground.session_id, held.key)
    texts = [plain_text(message.parts) for message in read.messages]
    assert texts == ["one", "one: done", "instead"]


def test_undoing_ends_when_the_session_goes_on(ground: Ground) -> None:
    first = turn(ground, "one")
    turn(ground, "two")
    rewound = go_back(ground, first[1])
    turn(ground, "instead")
    kept = ids(ground)
    with pytest.raises(RewindOutdated):
        undo(ground, rewound["id"])
    assert ids(ground) == kept


def test_rewinds_are_undone_in_the_opposite_order(ground: Ground) -> None:
    first, second, third = (turn(ground, text) for text in ("one", "two", "three"))
    later = go_back(ground, second[1])
    earlier = go_back(ground, first[1])
    with pytest.raises(RewindOutdated):
        undo(ground, later["id"])
    undo(ground, earlier["id"])
    assert ids(ground) == [*first, *second]
    with pytest.raises(RewindOutdated):
        undo(ground, earlier["id"])
    undo(ground, later["id"])
    assert ids(ground) == [*first, *second, *third]


def test_the_sessions_figures_go_back_and_come_back(ground: Ground) -> None:
    first = turn(ground, "one")
    todo = {"content": "c", "status": "pending", "active_form": "a"}
    workspace_id, session_id = ground.workspace_id, ground.session_id
    write(lambda tx: replace_todos(tx, workspace_id, session_id, todos=[todo]))
    second = turn(ground, "two")
    write(lambda tx: replace_todos(tx, workspace_id, session_id, todos=[todo, todo]))
    write(lambda tx: add_usage(tx, session_id, context_tokens=900))
    Session.objects.filter(pk=session_id).update(cost=2.5, total_prompt_tokens=70)

    rewound = go_back(ground, second[0])
    now = session(ground)
    assert now.todos == [todo]
    assert now.context_tokens == 0
    assert (now.cost, now.total_prompt_tokens) == (2.5, 70)  # was spent
    go_back(ground, first[1])
    undo(ground, Rewind.objects.latest("number").pk)

    undo(ground, rewound["id"])
    now = session(ground)
    assert now.todos == [todo, todo]
    assert now.context_tokens == 900


def test_a_removed_summary_uncovers_the_one_before_it(ground: Ground) -> None:
    turn(ground, "one")
    earlier = summarise(ground)
    second = turn(ground, "two")
    newest = summarise(ground)
    turn(ground, "three")
    assert session(ground).summary_message_id == newest

    rewound = go_back(ground, second[1])
    assert session(ground).summary_message_id == earlier
    undo(ground, rewound["id"])
    assert session(ground).summary_message_id == newest
    go_back(ground)
    assert session(ground).summary_message_id == ""


def summarise(ground: Ground) -> str:
    message_id = turn(ground, "summarise")[1]
    Message.objects.filter(pk=message_id).update(is_summary=True)
    write(
        lambda tx: add_usage(tx, ground.session_id, context_tokens=9, summary_message_id=message_id)
    )
    return message_id


def test_attachments_come_back_and_the_log_stores_their_content_once(ground: Ground) -> None:
    first = turn(ground, "one")
    content = "QUJD" * 2_000
    attached = PromptAttachment("a.png", "a.png", "image/png", content)
    key = ground.accept("look", attachments=(attached,))
    held = begin(held_by(key, *claim()))
    say(held, "seen")
    end(held)
    before = messages(ground)
    rewound = go_back(ground, first[1])
    undo(ground, rewound["id"])
    assert messages(ground) == before
    stored = [event["message"]["parts"] for event in ground.events("message.created")]
    assert content not in orjson.dumps(stored).decode()


def test_clients_of_v1_are_notified_of_each_removed_message(ground: Ground) -> None:
    first, second = turn(ground, "one"), turn(ground, "two")
    go_back(ground, first[1])
    (payload,) = ground.events("session.rewound")
    event = RecordedEvent(ground.workspace_id, 1, "session.rewound", "", payload, b"", 0)
    frames = [
        orjson.loads(frame.removeprefix(b"data: "))
        for frame in v1_frames.frames_of(event).split(b"\n\n")
        if frame
    ]
    assert [frame["type"] for frame in frames] == ["message", "message"]
    assert [frame["payload"]["type"] for frame in frames] == ["deleted", "deleted"]
    assert [frame["payload"]["payload"]["id"] for frame in frames] == second
    (shown, *_) = (message for message in messages(ground))
    assert frames[0]["payload"]["payload"].keys() == shown.keys()


# -- when it is refused


def test_a_busy_session_is_refused(ground: Ground) -> None:
    first = turn(ground, "one")
    key = ground.accept("waits")
    with pytest.raises(SessionBusy):
        go_back(ground, first[1])
    held = begin(held_by(key, *claim()))
    with pytest.raises(SessionBusy):
        go_back(ground, first[1])
    say(held, "done")
    end(held)
    go_back(ground, first[1])
    assert ids(ground) == first


def test_a_session_with_a_busy_child_session_or_a_users_command_is_refused(
    ground: Ground,
) -> None:
    first = turn(ground, "one")
    child = write(
        lambda tx: create_session(
            tx, ground.workspace_id, title="child", parent_session_id=ground.session_id
        )
    )["id"]
    ground.accept("below", session_id=child)
    with pytest.raises(SessionBusy):
        go_back(ground, first[1])
    end(next_run())
    command = ShellCommand("sleep 9", "", 0)
    write(
        lambda tx: start_command_message(
            tx, ground.workspace_id, ground.session_id, command=command
        )
    )
    with pytest.raises(SessionBusy):
        go_back(ground, first[1])


def test_what_is_unknown_is_refused(ground: Ground) -> None:
    turn(ground, "one")
    other = open_ground("/other")
    foreign = turn(other, "theirs")
    with pytest.raises(MessageUnknown):
        go_back(ground, foreign[0])
    with pytest.raises(RewindUnknown):
        undo(ground, go_back(other, foreign[0])["id"])
    with pytest.raises(SessionUnknown):
        go_back(Ground(ground.workspace_id, other.session_id))
    assert len(ids(ground)) == 2


def test_a_deleted_session_takes_its_rewinds_along(ground: Ground) -> None:
    first = turn(ground, "one")
    turn(ground, "two")
    go_back(ground, first[1])
    write(lambda tx: mark_deleted(tx, ground.workspace_id, ground.session_id))
    assert not Rewind.objects.exists()
    assert not RemovedMessage.objects.exists()
