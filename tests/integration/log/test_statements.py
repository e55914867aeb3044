"""Statements by hand: one way to write them for both databases, and Django's errors."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from workspaces.log.commits import CommitAttempt, commit, run_alone
from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.statements import statements
from workspaces.log.transaction import Transaction
from workspaces.models import Workspace

SET_PATH = "UPDATE workspaces_workspace SET path = %s WHERE id = %s"


def test_a_statement_finds_and_counts_rows(workspaces: list[str]) -> None:
    with statements() as cursor:
        cursor.execute("SELECT id FROM workspaces_workspace WHERE path = %s", ["/project/3"])
        assert cursor.fetchone() == (workspaces[3],)
        assert cursor.fetchone() is None
        cursor.execute("SELECT id FROM workspaces_workspace WHERE data_dir = %s", ["/data"])
        assert {row[0] for row in cursor.fetchall()} == set(workspaces)
        cursor.execute("UPDATE workspaces_workspace SET debug = %s", [True])
        assert cursor.rowcount == len(workspaces)


def test_one_statement_is_run_for_many_rows(workspaces: list[str]) -> None:
    with statements() as cursor:
        cursor.executemany(SET_PATH, [(f"/moved/{id_}", id_) for id_ in workspaces])
    paths = set(Workspace.objects.values_list("path", flat=True))
    assert paths == {f"/moved/{id_}" for id_ in workspaces}


def test_values_are_never_part_of_the_statement(workspaces: list[str]) -> None:
    hostile = "%s?'; DROP TABLE workspaces_workspace; --"
    with statements() as cursor:
        cursor.execute(SET_PATH, [hostile, workspaces[0]])
    assert Workspace.objects.get(pk=workspaces[0]).path == hostile


def test_errors_are_djangos(workspaces: list[str]) -> None:
    with pytest.raises(IntegrityError), transaction.atomic(), statements() as cursor:
        cursor.execute("UPDATE workspaces_workspace SET id = %s", ["one for all"])
    with pytest.raises(IntegrityError), transaction.atomic(), statements() as cursor:
        cursor.executemany(SET_PATH, [(None, workspaces[0])])
    with pytest.raises(DatabaseError), transaction.atomic(), statements() as cursor:
        cursor.execute("SELECT FROM WHERE")


def test_an_error_that_comes_with_a_later_row_is_djangos_too(workspaces: list[str]) -> None:
    overflows = "SELECT abs(x) FROM (SELECT 1 AS x UNION ALL SELECT -9223372036854775807 - 1) AS t"

    def look(tx: Transaction) -> object:
        return tx.fetch(overflows, [])

    with pytest.raises(DatabaseError, match=r"overflow|out of range"):
        run_alone("", look)


def test_it_is_part_of_the_transaction_around_it(workspaces: list[str]) -> None:
    with transaction.atomic():
        with statements() as cursor:
            cursor.execute(SET_PATH, ["/never", workspaces[0]])
        transaction.set_rollback(True)
    assert not Workspace.objects.filter(path="/never").exists()


def test_postgresql_plans_a_repeated_statement_once(workspaces: list[str]) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite keeps its own cache of statements")
    with statements() as cursor:
        for path in workspaces * 4:
            cursor.execute("SELECT id FROM workspaces_workspace WHERE path = %s", [path])
        cursor.execute(
            "SELECT statement FROM pg_prepared_statements WHERE statement LIKE %s", ["%path = $1"]
        )
        assert cursor.fetchall() == [("SELECT id FROM workspaces_workspace WHERE path = $1",)]


def test_postgresql_keeps_no_text_of_the_orm(workspaces: list[str]) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite keeps its own cache of statements")
    with statements() as cursor:
        cursor.execute("SELECT count(*) FROM workspaces_workspace")
    for _ in range(20):
        Workspace.objects.filter(pk=workspaces[0]).update(path="/secret value")
    with statements() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        assert not any("secret value" in text for (text,) in cursor.fetchall())
    assert not [key for key in connection.connection._prepared._counts if b"secret" in key[0]]


def test_it_opens_the_connection(workspaces: list[str]) -> None:
    connection.close()
    with statements() as cursor:
        cursor.execute("SELECT count(*) FROM workspaces_workspace")
        assert cursor.fetchone() == (len(workspaces),)


def test_later_statements_of_a_job_see_its_earlier_ones(workspaces: list[str]) -> None:
    def move(tx: Transaction) -> tuple[object, ...]:
        tx.execute(SET_PATH, ["/by hand", workspaces[0]])
        found = tx.fetch("SELECT path FROM workspaces_workspace WHERE id = %s", [workspaces[0]])
        tx.execute_many(SET_PATH, [("/one", workspaces[0]), ("/two", workspaces[1])])
        by_orm = Workspace.objects.filter(path__in=["/one", "/two"]).count()
        tx.execute(SET_PATH, ["/last", workspaces[0]])
        changed = tx.change(SET_PATH, ["/three", workspaces[2]])
        tx.execute(SET_PATH, ["/four", workspaces[3]])
        with statements() as other:
            other.execute("SELECT id FROM workspaces_workspace WHERE path = %s", ["/four"])
            seen = other.fetchone()
        return found, by_orm, changed, seen

    results, _ = run_alone("", move)
    assert results == ([("/by hand",)], 2, 1, (workspaces[3],))
    assert Workspace.objects.get(pk=workspaces[0]).path == "/last"


def test_nothing_is_left_of_a_job_that_fails(workspaces: list[str]) -> None:
    def fail(tx: Transaction) -> None:
        tx.execute(SET_PATH, ["/never", workspaces[0]])
        raise LookupError

    with pytest.raises(LookupError):
        run_alone("", fail)
    run_alone("", lambda tx: tx.execute(SET_PATH, ["/after it", workspaces[1]]))
    assert not Workspace.objects.filter(path="/never").exists()
    assert Workspace.objects.filter(path="/after it").exists()


def test_the_error_of_a_last_statement_is_its_jobs(workspaces: list[str]) -> None:
    with pytest.raises(IntegrityError):
        run_alone("", lambda tx: tx.execute(SET_PATH, [None, workspaces[0]]))


def test_the_error_of_a_statement_is_not_that_of_the_next_job(workspaces: list[str]) -> None:
    ran: list[str] = []

    def wrong(tx: Transaction) -> None:
        tx.execute(SET_PATH, [None, workspaces[0]])

    attempt = CommitAttempt()
    with pytest.raises(IntegrityError):
        commit([("", wrong), ("", lambda _: ran.append("next"))], attempt)
    assert (attempt.position, ran) == (0, [])


def test_rows_that_can_wait_come_with_the_next_statement(workspaces: list[str]) -> None:
    def look(tx: Transaction) -> list[tuple[object, ...]]:
        found = tx.fetch_soon(
            "SELECT path FROM workspaces_workspace WHERE id = %s", [workspaces[3]]
        )
        tx.execute(SET_PATH, ["/moved", workspaces[3]])
        again = tx.fetch("SELECT path FROM workspaces_workspace WHERE id = %s", [workspaces[3]])
        return [*found, *again]

    assert run_alone("", look)[0] == [("/project/3",), ("/moved",)]


@pytest.mark.parametrize("reads", [False, True])
def test_a_job_of_an_unknown_workspace_fails_and_leaves_nothing(
    workspaces: list[str], reads: bool
) -> None:
    def move(tx: Transaction) -> None:
        tx.execute(SET_PATH, ["/never", workspaces[0]])
        if reads:
            tx.fetch("SELECT 1 FROM workspaces_workspace", [])
            raise LookupError

    with pytest.raises(WorkspaceUnknown):
        run_alone("unknown", move)
    assert not Workspace.objects.filter(path="/never").exists()


def test_the_orm_finds_the_workspace_of_its_job_locked(workspaces: list[str]) -> None:
    def look(tx: Transaction) -> None:
        Workspace.objects.count()
        raise LookupError

    with pytest.raises(WorkspaceUnknown):
        run_alone("unknown", look)
    with pytest.raises(LookupError):
        run_alone(workspaces[0], look)
