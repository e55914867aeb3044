"""What tests of the writer share: jobs that append, a batch that gathers, the log as it is stored."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
from django.db import connection

from workspaces.log.transaction import RecordedEvent, Transaction
from workspaces.log.writer import Writer
from workspaces.models import Event, Workspace

NewWriter = Callable[[], Writer]


def append(tx: Transaction, workspace_id: str, name: str) -> int:
    return tx.append(workspace_id, "test.appended", {"name": name}, session_id=name)


def appending(workspace_id: str, name: str) -> Callable[[Transaction], int]:
    return partial(append, workspace_id=workspace_id, name=name)


class Gate:
    """A job that holds the writer until it is opened, so that a batch gathers."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self, tx: Transaction) -> None:
        self.entered.set()
        assert self.opened.wait(20)

    async def hold(self, writer: Writer) -> asyncio.Task[None]:
        task = asyncio.create_task(writer.write("", self))
        await asyncio.to_thread(self.entered.wait, 20)
        return task


async def gathered(writer: Writer, gate: Gate, jobs: Sequence[tuple[str, Any]]) -> list[Any]:
    """The answers to jobs that were all asked while the writer was busy."""
    held = await gate.hold(writer)
    tasks = [asyncio.create_task(writer.write(workspace, job)) for workspace, job in jobs]
    await asyncio.sleep(0)  # each has asked now
    gate.opened.set()
    await held
    return await asyncio.gather(*tasks, return_exceptions=True)


def start(new_writer: NewWriter, told: list[RecordedEvent] | None = None) -> Writer:
    writer = new_writer()
    publish = told.extend if told is not None else None
    writer.start(publish=publish, loop=asyncio.get_running_loop())
    return writer


async def in_thread(query: Callable[..., Any], *args: Any) -> Any:
    def run() -> Any:
        try:
            return query(*args)
        finally:
            connection.close()

    return await asyncio.to_thread(run)


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


@contextmanager
def other_session() -> Iterator[psycopg.Connection]:
    """Another process, on PostgreSQL."""
    settings = connection.settings_dict
    with psycopg.connect(
        host=settings["HOST"],
        port=settings["PORT"],
        user=settings["USER"],
        dbname=settings["NAME"],
    ) as session:
        yield session
