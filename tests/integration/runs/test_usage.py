"""What model requests have used: one entry for each, and their sums."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from agents.llm.contract import Usage
from agents.llm.usage import RequestUsage
from agents.models import Run, UsageEntry, UsageKind
from agents.runs.steps import ReplyStart, ReplyWrite
from agents.runs.usage import UsageBy, UsageFilter, read_usage, store_usage
from agents.states import RunOutcome
from agents.turn.effects import End
from tests.integration.runs.ground import (
    Ground,
    begin,
    claim,
    held_by,
    open_ground,
    step,
    used,
    write,
)
from tests.integration.runs.test_migrations import migrate
from workspaces.access import Actor, IdentityKind
from workspaces.log.errors import Overtaken
from workspaces.log.parts import FinishReason, Text
from workspaces.log.transaction import Transaction
from workspaces.models import Message, Session

FIGURES = ("requests", "prompt_tokens", "completion_tokens", "cost")
DAY_MS = 86_400_000


def answer(
    ground: Ground, usage: RequestUsage, *, is_summary: bool = False, actor: Actor | None = None
) -> int:
    key = ground.accept(actor=actor)
    held = begin(held_by(key, *claim()))
    step(held, start=ReplyStart("model", "provider", is_summary=is_summary))
    message = Message.objects.get(run_key=held.key, role="assistant")
    parts = (Text("words"),)
    reply = ReplyWrite(message.pk, parts, FinishReason.END_TURN, usage=usage, is_summary=is_summary)
    step(held, reply=reply, end=End(RunOutcome.COMPLETED))
    return held.key


def test_a_reply_and_its_sessions_totals_are_stored_together(ground: Ground) -> None:
    tokens = Usage(input=10, output=3, cache_read=20, cache_write=5)
    key = answer(ground, RequestUsage("openai", "gpt", tokens, 0.25))
    entry = UsageEntry.objects.get()
    assert (entry.workspace_id, entry.session_id) == (ground.workspace_id, ground.session_id)
    assert (entry.run_key, entry.kind) == (key, UsageKind.REPLY)
    assert (entry.provider, entry.model) == ("openai", "gpt")
    assert (entry.prompt_tokens, entry.completion_tokens) == (35, 3)
    assert (entry.cache_read_tokens, entry.cache_write_tokens, entry.cost) == (20, 5, 0.25)
    assert abs(entry.created_at - time.time() * 1000) < 60_000
    session = Session.objects.get(pk=ground.session_id)
    assert (session.total_prompt_tokens, session.total_completion_tokens) == (35, 3)
    assert session.cost == 0.25


@pytest.mark.parametrize("user_id", [7, None])
def test_an_entry_names_the_author_of_its_run(ground: Ground, user_id: int | None) -> None:
    actor = Actor(IdentityKind.USER, "ann", user_id)
    answer(ground, used(7), actor=actor)
    entry = UsageEntry.objects.get()
    assert (entry.user_id, entry.user_name) == (user_id, "ann")


def test_a_title_is_an_entry_of_its_runs_author(ground: Ground) -> None:
    ground.accept(actor=Actor(IdentityKind.USER, "ann", 7))
    (claimed,) = claim()
    write(lambda tx: store_usage(tx, claimed, used(7), kind=UsageKind.TITLE))
    entry = UsageEntry.objects.get()
    assert (entry.user_id, entry.user_name, entry.kind) == (7, "ann", UsageKind.TITLE)


def test_a_summary_is_an_entry_of_its_own_kind(ground: Ground) -> None:
    answer(ground, used(7), is_summary=True)
    assert UsageEntry.objects.get().kind == UsageKind.SUMMARY


def test_a_request_that_reports_nothing_has_no_entry(ground: Ground) -> None:
    answer(ground, RequestUsage("openai", "gpt"))
    assert not UsageEntry.objects.exists()


def test_a_transaction_that_fails_stores_neither(ground: Ground) -> None:
    key = ground.accept()
    run = Run.objects.get(pk=key)

    class _Run:
        key, workspace_id, session_id = run.pk, ground.workspace_id, ground.session_id
        author = None

    def job(tx: Transaction) -> None:
        store_usage(tx, _Run(), used(7, cost=1.0), kind=UsageKind.REPLY)
        raise Overtaken

    with pytest.raises(Overtaken):
        write(job)
    assert not UsageEntry.objects.exists()
    assert Session.objects.get(pk=ground.session_id).cost == 0


def entry(ground: Ground, day: int = 0, **more: Any) -> UsageEntry:
    given = {
        "session_id": ground.session_id,
        "kind": UsageKind.REPLY,
        "provider": "p",
        "model": "m",
        "prompt_tokens": 1,
        "completion_tokens": 2,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "cost": 0.5,
        "created_at": day * DAY_MS,
    }
    return UsageEntry.objects.create(workspace_id=ground.workspace_id, **(given | more))


def figures(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in FIGURES)


def test_sums_by_day_begin_with_the_newest_and_end_days_at_midnight_utc(ground: Ground) -> None:
    entry(ground, created_at=DAY_MS - 1)
    entry(ground, created_at=DAY_MS)
    entry(ground, created_at=2 * DAY_MS - 1)
    rows = read_usage([UsageBy.DAY], UsageFilter())
    assert [(row["day"], *figures(row)) for row in rows] == [
        ("1970-01-02", 2, 2, 4, 1.0),
        ("1970-01-01", 1, 1, 2, 0.5),
    ]


def test_groups_may_be_combined(ground: Ground) -> None:
    other = open_ground("/other")
    entry(ground, user_id=1, user_name="ann")
    entry(ground, user_id=1, user_name="ann", model="n")
    entry(other, user_id=2, user_name="bob")
    rows = read_usage([UsageBy.USER, UsageBy.MODEL], UsageFilter())
    assert [(row["user_name"], row["model"], row["requests"]) for row in rows] == [
        ("ann", "m", 1),
        ("ann", "n", 1),
        ("bob", "m", 1),
    ]
    rows = read_usage([UsageBy.WORKSPACE], UsageFilter())
    assert {row["workspace_path"]: row["requests"] for row in rows} == {"/project": 2, "/other": 1}


def test_filters_choose_entries_and_without_groups_there_is_one_sum(ground: Ground) -> None:
    other = open_ground("/other")
    entry(ground, day=1, user_name="ann")
    entry(ground, day=2, user_name="bob")
    entry(other, day=2, user_name="ann", model="n")

    def sums(**chosen: Any) -> int:
        (row,) = read_usage([], UsageFilter(**chosen))
        return int(row["requests"])

    assert sums() == 3
    assert sums(since=2 * DAY_MS) == 2
    assert sums(before=2 * DAY_MS) == 1
    assert sums(workspaces=[other.workspace_id]) == 1
    assert sums(workspaces=[]) == 0
    assert sums(user="ann", model="m") == 1
    assert sums(user="nobody") == 0


BEFORE = ("agents", "0008_run_authors")


def test_totals_of_earlier_requests_become_one_entry_a_session_without_counting_twice(
    ground: Ground,
) -> None:
    parent = ground.accept()
    child_session, unused = ground.new_session("child"), ground.new_session("unused")
    child = ground.accept(session_id=child_session)
    Run.objects.filter(pk=child).update(parent_id=parent, state="finished")
    # A parent's cost contains that of its child runs, its tokens do not.
    Session.objects.filter(pk=ground.session_id).update(
        total_prompt_tokens=100, total_completion_tokens=10, cost=0.75, updated_at=5 * DAY_MS
    )
    Session.objects.filter(pk=child_session).update(total_prompt_tokens=40, cost=0.25)
    leaves = MigrationExecutor(connection).loader.graph.leaf_nodes()
    migrate(BEFORE)
    migrate(*leaves)

    entries = {entry.session_id: entry for entry in UsageEntry.objects.all()}
    assert unused not in entries
    earlier = entries[ground.session_id]
    assert (earlier.kind, earlier.model, earlier.user_name) == (UsageKind.EARLIER, "", "")
    assert (earlier.prompt_tokens, earlier.completion_tokens) == (100, 10)
    assert (earlier.cost, earlier.created_at) == (0.5, 5 * DAY_MS)
    assert (entries[child_session].prompt_tokens, entries[child_session].cost) == (40, 0.25)
    (total,) = read_usage([], UsageFilter())
    assert figures(total) == (2, 140, 10, 0.75)
