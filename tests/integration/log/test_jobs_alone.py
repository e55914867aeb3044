"""One job alone, as it sees the log and its own transaction."""

from __future__ import annotations

import time
from functools import partial

import psycopg
import pytest
from django.db import OperationalError, transaction

from tests.integration.log.writing import append, appending, logged
from workspaces.backoff import FIRST_SECONDS
from workspaces.log.commits import RETRIES, run_alone
from workspaces.log.transaction import Transaction


def test_one_job_alone_returns_its_events(workspaces: list[str]) -> None:
    value, recorded = run_alone(workspaces[0], appending(workspaces[0], "a"))

    assert value == 1
    assert [event.number for event in recorded] == [1]


def test_a_job_sees_the_number_that_its_next_event_gets(workspaces: list[str]) -> None:
    def twice(tx: Transaction) -> list[int]:
        return [
            tx.next_number(workspaces[0]),
            append(tx, workspaces[0], "a"),
            tx.next_number(workspaces[0]),
        ]

    assert run_alone(workspaces[0], twice)[0] == [1, 1, 2]


def test_a_payload_that_is_no_json_fails_and_leaves_nothing(workspaces: list[str]) -> None:
    with pytest.raises(TypeError):
        run_alone(workspaces[0], appending(workspaces[0], "\ud800"))

    assert logged(workspaces[0]) == []


def test_a_job_reads_and_counts_rows(workspaces: list[str]) -> None:
    def look(tx: Transaction) -> tuple[int, int]:
        found = tx.fetch("SELECT id FROM workspaces_workspace WHERE data_dir = %s", ["/data"])
        return len(found), tx.change("UPDATE workspaces_workspace SET debug = %s", [True])

    assert run_alone("", look)[0] == (20, 20)


def test_a_job_alone_waits_for_a_locked_row_between_its_tries() -> None:
    tries: list[float] = []

    def locked_at_first(tx: Transaction) -> str:
        tries.append(time.monotonic())
        if len(tries) < 4:
            raise OperationalError("database is locked")
        return "done"

    assert run_alone("", locked_at_first)[0] == "done"
    assert tries[1] - tries[0] >= 0.75 * FIRST_SECONDS
    assert tries[3] - tries[2] >= 0.75 * 4 * FIRST_SECONDS


def test_a_job_alone_does_not_wait_for_ever() -> None:
    def locked(tx: Transaction) -> None:
        raise OperationalError("database is locked")

    began = time.monotonic()
    with pytest.raises(OperationalError, match="database is locked"):
        run_alone("", locked, seconds=0.1)
    assert 0.1 <= time.monotonic() - began < 30


def test_an_error_that_nothing_is_known_about_is_told_after_a_few_tries() -> None:
    tries: list[int] = []

    def fail(tx: Transaction, times: int) -> str:
        tries.append(1)
        if len(tries) <= times:
            raise OperationalError("nobody knows")
        return "done"

    assert run_alone("", partial(fail, times=RETRIES - 1))[0] == "done"

    tries.clear()
    with pytest.raises(OperationalError, match="nobody knows"):
        run_alone("", partial(fail, times=99))
    assert len(tries) == RETRIES


def test_a_connection_that_breaks_before_the_commit_is_no_commit(workspaces: list[str]) -> None:
    tries: list[int] = []

    def break_once(tx: Transaction) -> str:
        tries.append(append(tx, workspaces[0], "a"))
        if len(tries) == 1:
            raise OperationalError("gone") from psycopg.OperationalError("the connection is lost")
        return "done"

    value, recorded = run_alone(workspaces[0], break_once)

    assert (value, tries, len(recorded)) == ("done", [1, 1], 1)


def test_a_job_inside_of_a_transaction_is_committed_with_it(workspaces: list[str]) -> None:
    with transaction.atomic():
        run_alone(workspaces[0], appending(workspaces[0], "undone"))
        transaction.set_rollback(True)
    with transaction.atomic():
        run_alone(workspaces[0], appending(workspaces[0], "kept"))
    assert logged(workspaces[0]) == [(1, "kept")]
