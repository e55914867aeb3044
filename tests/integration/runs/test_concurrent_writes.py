"""A job waits for another server's job in the same workspace, and builds on what that one wrote.

Only on PostgreSQL: SQLite has one writer at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from agents.runs.cancel import cancel_session
from agents.runs.finish import close_if_left
from agents.runs.teardown import retire_everywhere
from tests.integration.databases import POSTGRESQL, Databases
from tests.integration.runs.ground import Ground, run_of
from workspaces.actions.claims import claim_workspace
from workspaces.log.commits import run_alone
from workspaces.log.statements import statements
from workspaces.log.transaction import Counters, Transaction
from workspaces.models import ClientClaim, Workspace

Job = Callable[[Transaction], Any]
WAITS = (
    "SELECT COUNT(*) FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    with databases.get(POSTGRESQL).use():
        yield POSTGRESQL


def write_behind(ground: Ground, earlier: Job, job: Job, *, later: Job | None = None) -> int:
    """``job`` begins while ``earlier`` has written and has not committed yet.

    ``later`` follows in the transaction of ``earlier`` when ``job`` waits. Returns how often the
    database had ``job`` begin: more than once after a deadlock.
    """
    failures: list[Exception] = []
    begun: list[Transaction] = []

    def counted(tx: Transaction) -> None:
        begun.append(tx)
        job(tx)

    def work() -> None:
        try:
            run_alone("", counted)
        except Exception as failure:
            failures.append(failure)
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    with transaction.atomic(), statements() as cursor:
        tx = Transaction(cursor, Counters(connection.vendor))
        tx.lock(ground.workspace_id)
        earlier(tx)
        thread.start()
        until = time.monotonic() + 20
        while thread.is_alive() and not _somebody_waits():
            assert time.monotonic() < until
            time.sleep(0.005)
        if later is not None:
            later(tx)
    thread.join(20)
    assert not thread.is_alive()
    assert failures == []
    return len(begun)


def _somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(WAITS)
        return bool(cursor.fetchone()[0])


def test_a_workspace_that_a_client_just_opens_is_not_closed(ground: Ground) -> None:
    ClientClaim.objects.all().delete()
    write_behind(
        ground,
        lambda tx: claim_workspace(tx, ground.workspace_id, "d", grace_seconds=60),
        lambda tx: close_if_left(tx, ground.workspace_id),
    )
    assert Workspace.objects.get(pk=ground.workspace_id).is_open


def test_a_client_that_leaves_and_a_cancel_of_its_run_do_not_block_each_other(
    ground: Ground,
) -> None:
    """Both lock the workspace before they lock the run."""
    key = ground.accept(run_id="r")
    count = write_behind(
        ground,
        lambda tx: None,
        lambda tx: retire_everywhere(tx, "c"),
        later=lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id),
    )
    assert count == 1
    assert run_of(key).outcome == "cancelled"
