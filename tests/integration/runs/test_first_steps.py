"""A run begins together with the start of its first reply, in one transaction."""

from __future__ import annotations

import pytest

from agents.runs.accept import PromptAttachment
from agents.runs.cancel import cancel_session
from agents.runs.conversation import read_transcript
from agents.runs.lease import Lease, LeaseLost
from agents.runs.prompting.begin import FirstStep, begin_with_step
from agents.runs.steps import ReplyStart, Step
from tests.integration.runs.ground import Ground, claim, end, held_by, run_of, say, write
from workspaces.models import Event, Message

START = Step(start=ReplyStart("model", "provider", fold=True))


def first_step(
    ground: Ground, held: Lease, *, message_count: int | None = None
) -> FirstStep | None:
    if message_count is None:
        message_count = read_transcript(ground.session_id, held.key).message_count
    return write(lambda tx: begin_with_step(tx, held, START, message_count=message_count))


def kinds(ground: Ground, *, after: int) -> list[str]:
    events = Event.objects.filter(workspace_id=ground.workspace_id, number__gt=after)
    return list(events.order_by("number").values_list("kind", flat=True))


def test_the_prompt_is_stored_the_run_has_started_and_its_reply_is_open(ground: Ground) -> None:
    earlier = ground.start("earlier")
    say(earlier, "words")
    end(earlier)
    key = ground.accept("go")
    held = held_by(key, *claim())
    before = read_transcript(ground.session_id, key)
    logged = Event.objects.count()

    first = first_step(ground, held, message_count=before.message_count)

    assert first is not None
    assert kinds(ground, after=logged) == ["message.created", "run.started", "message.started"]
    assert run_of(key).started_at is not None
    reply = Message.objects.get(run_key=key, role="assistant")
    assert first.written.message is not None
    assert (first.written.message["id"], reply.is_finished) == (reply.pk, False)
    assert not first.written.folded
    # What the run knows now is what it would read.
    assert (*before.messages, *first.prompt) == read_transcript(ground.session_id, key).messages


def test_the_prompts_message_has_its_attachments(ground: Ground) -> None:
    attached = PromptAttachment("a.txt", "a.txt", "text/plain", "aGVsbG8=" * 1_000)
    key = ground.accept("go", attachments=(attached,))
    first = first_step(ground, held_by(key, *claim()))
    assert first is not None
    assert first.prompt == read_transcript(ground.session_id, key).own


def test_a_transcript_that_has_changed_since_is_read_again(ground: Ground) -> None:
    key = ground.accept("go")
    held = held_by(key, *claim())
    first = first_step(ground, held, message_count=1)
    assert first is not None
    assert first.written.folded


def test_prompts_that_join_are_read_with_the_transcript(ground: Ground) -> None:
    earlier = ground.start("earlier")
    key, joins = ground.accept("go"), ground.accept("and this")
    say(earlier, "words")
    end(earlier)
    first = first_step(ground, held_by(key, *claim()))
    assert first is not None
    assert first.written.folded
    assert run_of(joins).outcome == "folded"


def test_a_run_that_was_cancelled_before_it_began_starts_no_reply(ground: Ground) -> None:
    key = ground.accept("go")
    held = held_by(key, *claim())
    write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id))
    assert first_step(ground, held, message_count=0) is None
    assert run_of(key).outcome == "cancelled"
    assert ground.events("run.started") == ground.events("message.started") == []


def test_a_worker_that_does_not_hold_the_run_begins_nothing(ground: Ground) -> None:
    key = ground.accept("go")
    held = held_by(key, *claim())
    with pytest.raises(LeaseLost):
        first_step(ground, Lease(key, held.fence + 1, held.workspace_id, held.session_id))
    assert run_of(key).started_at is None
