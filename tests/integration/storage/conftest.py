"""Workspaces in a real database file, and a writer with a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from workspaces.models import Event, Workspace
from workspaces.storage.reader import stop_reading
from workspaces.storage.writer import Writer

NewWriter = Callable[[], Writer]


@pytest.fixture(autouse=True)
def _database(transactional_db: None) -> Iterator[None]:
    yield
    stop_reading()


@pytest.fixture
def new_writer(_database: None) -> Iterator[NewWriter]:
    made: list[Writer] = []

    def make() -> Writer:
        made.append(Writer())
        return made[-1]

    yield make
    for writer in made:
        writer.stop()


@pytest.fixture
def workspaces(_database: None) -> list[str]:
    made = [Workspace(path=f"/project/{number}", data_dir="/data") for number in range(20)]
    return [workspace.pk for workspace in Workspace.objects.bulk_create(made)]


def logged(workspace_id: str) -> list[tuple[int, str]]:
    """The workspace's log as (number, session), checked against its counter."""
    rows = list(
        Event.objects.filter(workspace_id=workspace_id)
        .order_by("number")
        .values_list("number", "session_id")
    )
    assert [number for number, _ in rows] == list(range(1, len(rows) + 1))
    assert Workspace.objects.get(pk=workspace_id).last_event == len(rows)
    return rows
