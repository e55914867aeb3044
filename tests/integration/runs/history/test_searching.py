"""The search finds what is stored, at once, and nothing else."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from agents.runs.cancel import mark_deleted
from agents.runs.steps import ReplyStart, ReplyWrite
from tests.integration.runs.ground import Ground, end, open_ground, say, step, write
from tests.integration.runs.history.session_history import go_back, turn, undo
from workspaces.actions.forks import fork_session
from workspaces.actions.messages import (
    change_message,
    checkpoint_message,
    create_message,
    start_command_message,
)
from workspaces.actions.search_texts import fill_step
from workspaces.actions.sessions import rename_session
from workspaces.log.parts import FinishReason, Reasoning, Role, ShellCommand, Text, ToolResult
from workspaces.models import Message, SearchFill, SearchText, Workspace
from workspaces.queries.search import search


def found(query: str, **more: Any) -> list[str]:
    """The texts of the messages that are found, the newest first."""
    page = search(query, limit=more.pop("limit", 50), **more)
    return [item["snippet"] for item in page.items if item["kind"] == "message"]


def store(ground: Ground, text: str, *, session_id: str = "") -> str:
    message = write(
        lambda tx: create_message(
            tx,
            ground.workspace_id,
            session_id or ground.session_id,
            role=Role.USER,
            parts=(Text(text),),
        )
    )
    return str(message["id"])


def test_messages_with_all_words_are_found_the_newest_first(ground: Ground) -> None:
    for text in ("red apples", "green apples", "green pears"):
        store(ground, text)
    assert found("apples") == ["green apples", "red apples"]
    assert found("APPLES green") == ["green apples"]
    assert found("apples pears") == []
    assert found("app") == ["green apples", "red apples"]
    assert found("pea green") == []  # only the last word may be a beginning
    assert found("gr") == []


def test_parts_of_paths_and_names_are_words(ground: Ground) -> None:
    store(ground, "look at agents/runs/some_module.py, please: user@example.org (v2.10)")
    for query in ("runs", "module", "some_module.py", "agents/runs", "example.org", "v2 10"):
        assert len(found(query)) == 1, query


def test_words_of_every_script_are_found(ground: Ground) -> None:
    store(ground, "Käse für Žofie, 数据库 и данные")
    for query in ("käse", "FÜR", "žofie", "数据库", "данные"):
        assert len(found(query)) == 1, query


def test_a_reply_is_found_when_it_is_finished_and_not_before(ground: Ground) -> None:
    held = ground.start("a question")
    step(held, start=ReplyStart("model", "provider"))
    message = Message.objects.get(run_key=held.key, role="assistant")
    write(lambda tx: checkpoint_message(tx, message.pk, parts=(Text("half of the"),)))
    assert found("half") == []
    parts = (Reasoning("hidden thoughts"), Text("half of the answer"))
    step(held, reply=ReplyWrite(message.pk, parts, FinishReason.END_TURN))
    assert found("half answer") == ["half of the answer"]
    assert found("hidden") == []
    write(lambda tx: change_message(tx, ground.workspace_id, message.pk, parts=(Text("replaced"),)))
    assert found("half") == []
    assert found("replaced") == ["replaced"]


def test_commands_of_users_are_found_and_output_of_tools_is_not(ground: Ground) -> None:
    workspace_id, session_id = ground.workspace_id, ground.session_id
    started = write(
        lambda tx: start_command_message(
            tx, workspace_id, session_id, command=ShellCommand("make unique", "", 0)
        )
    )
    assert found("unique") == []
    done = (ShellCommand("make unique", "a line of output", 0),)
    write(lambda tx: change_message(tx, workspace_id, started["id"], parts=done))
    result = (ToolResult("c", "bash", "a line of output"),)
    write(lambda tx: create_message(tx, workspace_id, session_id, role=Role.TOOL, parts=result))
    assert found("unique") == ["make unique"]
    assert found("output") == []


def test_titles_come_first_and_follow_a_new_title(ground: Ground) -> None:
    store(ground, "some apples")
    write(lambda tx: rename_session(tx, ground.workspace_id, ground.session_id, title="Apples"))
    items = search("apples", limit=50).items
    assert [item["kind"] for item in items] == ["session", "message"]
    assert items[0]["session_id"] == ground.session_id
    assert items[1]["session_title"] == "Apples"
    write(lambda tx: rename_session(tx, ground.workspace_id, ground.session_id, title="Pears"))
    assert [item["kind"] for item in search("apples", limit=50).items] == ["message"]


def test_only_the_given_workspaces_and_session_are_searched(ground: Ground) -> None:
    other = open_ground("/other")
    store(ground, "apples here")
    second = ground.new_session()
    store(ground, "apples in another session", session_id=second)
    # A person who writes the index's own word for a workspace does not appear in it.
    scope = SearchText.objects.values_list("scope", flat=True).first()
    store(other, f"apples there {scope}")
    assert len(found("apples")) == 3
    assert len(found("apples", workspaces=[ground.workspace_id])) == 2
    assert found("apples", session_id=second) == ["apples in another session"]
    assert found("apples", workspaces=[other.workspace_id], session_id=second) == []
    assert found("apples", workspaces=[]) == []
    for word in str(scope).split():
        assert "there" not in " ".join(found(word, workspaces=[ground.workspace_id]))


def test_a_closed_workspace_and_a_deleted_session_are_not_found(ground: Ground) -> None:
    store(ground, "apples")
    gone = ground.new_session("apples")
    store(ground, "apples", session_id=gone)
    write(lambda tx: mark_deleted(tx, ground.workspace_id, gone))
    assert len(search("apples", limit=50).items) == 1
    assert SearchText.objects.count() == 1
    Workspace.objects.update(is_open=False)
    assert search("apples", limit=50).items == []


def test_pages_continue_where_the_one_before_ended(ground: Ground) -> None:
    for number in range(7):
        store(ground, f"apples {number}")
    first = search("apples", limit=3)
    second = search("apples", limit=3, before_id=first.next_id)
    third = search("apples", limit=3, before_id=second.next_id)
    texts = [item["snippet"] for page in (first, second, third) for item in page.items]
    assert texts == [f"apples {number}" for number in reversed(range(7))]
    assert third.next_id is None


def test_a_snippet_shows_the_match(ground: Ground) -> None:
    store(ground, "x " * 5_000 + "the Needle in it " + "y " * 5_000)
    (item,) = search("needle", limit=5).items
    (start, stop) = item["highlights"][0]
    assert item["snippet"][start:stop] == "Needle"
    assert len(item["snippet"]) <= 240


def test_rewinds_and_forks_keep_the_search_right(ground: Ground) -> None:
    first = turn(ground, "one apple")
    turn(ground, "two pears")
    rewound = go_back(ground, first[1])
    assert found("pears") == []
    undo(ground, rewound["id"])
    assert sorted(found("pears")) == ["two pears", "two pears: done"]
    made = write(lambda tx: fork_session(tx, ground.workspace_id, ground.session_id))
    assert len(found("pears")) == 4
    assert found("apple", session_id=made["id"]) == ["one apple: done", "one apple"]
    assert found("pears", workspaces=[ground.workspace_id], session_id=made["id"]) != []


@pytest.mark.parametrize(
    "query",
    [
        "",
        " ",
        "\0",
        "a\0b",
        '"',
        "'",
        '"unbalanced',
        "AND",
        "NOT",
        "OR NEAR(",
        "apples AND",
        "text : apples",
        "scope:*",
        "-apples",
        "apples*",
        "^apples",
        "(((((",
        "a' | 'b",
        "\\",
        "%_%",
        ":*",
        "!apples & ",
        "\ud800".encode("utf-8", "replace").decode(),
        "\u200b\u0301",
        "é" * 1_000,
        "apples " * 200,
        "x" * 1_000,
        "1e999999 -5 +7 0x10",
    ],
)
def test_a_hostile_query_is_only_words(ground: Ground, query: str) -> None:
    store(ground, "apples AND oranges")
    page = search(query, limit=5, workspaces=[ground.workspace_id])
    assert len(page.items) <= 1


def test_hostile_texts_can_be_stored(ground: Ground) -> None:
    for text in ("\0", "'\"\\", "é" * 200_000, "x" * 300_000, " ".join(map(str, range(40_000)))):
        store(ground, f"needle {text}")
    assert len(found("needle")) == 5


def test_messages_of_earlier_releases_are_indexed_a_few_at_a_time(ground: Ground) -> None:
    empty, last = ground.new_session(), ground.new_session()
    for number in range(3):
        store(ground, f"old apples {number}")
    store(ground, "old apples at last", session_id=last)
    held = ground.start("a prompt with apples", session_id=empty)
    say(held, "")
    end(held)
    expected = found("apples")
    SearchText.objects.all().delete()
    fill = SearchFill.objects.first() or SearchFill(until=10**15)
    SearchFill.objects.update_or_create(
        pk=fill.pk,
        defaults={"until": 10**15, "is_done": False, "session_id": "", "next_id": -1000},
    )
    store(ground, "new apples")
    assert not search("apples", limit=5).is_complete
    assert found("apples") == ["new apples"]

    while write(fill_step):
        pass

    assert found("apples")[0] == "new apples"
    assert sorted(found("apples")[1:]) == sorted(expected)
    assert found("old", session_id=ground.session_id)[0] == "old apples 2"
    assert search("apples", limit=5).is_complete
    assert not write(fill_step)


def test_the_log_is_not_changed_by_the_index(ground: Ground) -> None:
    store(ground, "apples")
    (event,) = ground.events("message.created")
    assert orjson.dumps(event).count(b"apples") == 1
