"""`python -m tests.bench.framework`: what Django's ordinary ways cost beside those of this program.

One process, SQLite in a temporary folder, the standard event loop. Times are processor time.
`docs/where-we-leave-django.md` has the figures and says what follows from them.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

WORKSPACE = "11111111-1111-4111-8111-111111111111"
READERS = 50


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.framework", description=__doc__)
    parser.add_argument("--requests", type=int, default=3_000)
    parser.add_argument("--writes", type=int, default=3_000)
    parser.add_argument("--deliveries", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="crush-framework-") as folder:
        os.environ |= {
            "CRUSH_DATA_DIR": f"{folder}/data",
            "DJANGO_SETTINGS_MODULE": "crushsite.settings",
        }
        import django

        django.setup()
        from django.core.management import call_command

        Path(f"{folder}/data").mkdir(mode=0o700)
        call_command("migrate", verbosity=0)
        for run in range(options.runs):
            asyncio.run(_requests(options.requests))
            asyncio.run(_writes(Path(folder) / str(run), options.writes))
            asyncio.run(_deliveries(options.deliveries))
            asyncio.run(_statements(Path(folder) / str(run), options.writes))


def _report(what: str, count: int, cpu: float, wall: float) -> None:
    print(f"{what:<58}{cpu / count * 1e6:>9.1f} µs each{count / wall:>12,.0f} a second")


async def _timed(what: str, count: int, work: Callable[[], Awaitable[object]]) -> None:
    cpu, wall = time.process_time(), time.perf_counter()
    await work()
    _report(what, count, time.process_time() - cpu, time.perf_counter() - wall)


async def _requests(count: int) -> None:
    from django.core.handlers.asgi import ASGIHandler
    from django.test import override_settings

    from crushsite.asgi.routing import ApiHandler

    async def gets(handler: Any) -> None:
        for _ in range(count):
            assert await _status(handler, "/v1/version") == 200

    own: Any = ApiHandler()
    with override_settings(MIDDLEWARE=[]):
        bare = ASGIHandler()
    full = ASGIHandler()
    for handler in (own, bare, full):
        await _status(handler, "/v1/version")
    await _timed("GET /v1/version by our handler", count, lambda: gets(own))
    await _timed("the same by Django's handler, no middleware", count, lambda: gets(bare))
    await _timed("the same by Django's handler, the admin's middleware", count, lambda: gets(full))


async def _status(handler: Any, path: str) -> int:
    from workspaces.access import CALLER, OWNER, Caller

    messages = [{"type": "http.request", "body": b"", "more_body": False}]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop() if messages else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")],
        CALLER: Caller(OWNER),
    }
    await handler(scope, receive, send)
    return int(sent[0]["status"])


async def _writes(folder: Path, count: int) -> None:
    from functools import partial

    from workspaces.actions.workspaces import Opening, open_workspace
    from workspaces.log.reader import stop_reading
    from workspaces.log.types import Kind
    from workspaces.log.writer import Writer

    writer = Writer()
    writer.start(publish=lambda recorded: None, loop=asyncio.get_running_loop())
    opening = Opening(path=str(folder), data_dir=str(folder / ".crush"))
    workspace = await writer.write("", partial(open_workspace, opening=opening))

    def job(tx: Any) -> int:
        number: int = tx.append(workspace.pk, Kind.CONFIG_CHANGED, {"workspace_id": workspace.pk})
        return number

    async def together() -> None:
        for _ in range(count // READERS):
            await asyncio.gather(*(writer.write(workspace.pk, job) for _ in range(READERS)))

    async def one_by_one() -> None:
        for _ in range(count // 10):
            await writer.write(workspace.pk, job)

    await _timed("an event by the writer, 50 requests at once", count, together)
    await _timed("an event by the writer, one request at a time", count // 10, one_by_one)
    await asyncio.to_thread(writer.stop)

    async def by_orm() -> None:
        await asyncio.to_thread(_append_by_orm, workspace.pk, count // 10)

    await _timed("the same by the ORM in a transaction a request", count // 10, by_orm)
    await asyncio.to_thread(stop_reading)


def _append_by_orm(workspace_id: str, count: int) -> None:
    from django.db import connection, transaction
    from django.db.models import Max

    from workspaces.models import Event, Workspace

    for _ in range(count):
        with transaction.atomic():
            workspace = Workspace.objects.select_for_update().get(pk=workspace_id)
            last = workspace.events.aggregate(last=Max("number"))["last"] or 0
            Event.objects.create(
                workspace=workspace,
                number=last + 1,
                kind="config.changed",
                payload=f'{{"workspace_id":"{workspace_id}"}}',
                created_at=0,
            )
    connection.close()


async def _statements(folder: Path, count: int) -> None:
    await asyncio.to_thread(_rows, folder, count)


def _rows(folder: Path, count: int) -> None:
    from django.db import connection, transaction

    from permissions.models import QuestionBatch
    from workspaces.log.ids import new_id
    from workspaces.log.rows import INSERT_SESSION, SESSION_COLUMNS, NewSession, SessionRow
    from workspaces.log.statements import statements
    from workspaces.models import Session, Workspace

    workspace = Workspace.objects.create(path=f"{folder}/rows", data_dir=f"{folder}/.crush")
    session_id = Session.objects.create(workspace=workspace).pk

    def read_by_statement() -> None:
        with statements() as cursor:
            where = "WHERE id = %s AND is_deleting = %s"
            cursor.execute(
                f"SELECT {SESSION_COLUMNS} FROM workspaces_session {where}", [session_id, False]
            )
            SessionRow(*cursor.fetchone())

    def read_by_orm() -> None:
        Session.objects.get(pk=session_id, is_deleting=False)

    def change_by_statement() -> None:
        with statements() as cursor:
            cursor.execute(
                "UPDATE workspaces_session SET title = %s WHERE id = %s", ["title", session_id]
            )

    def change_by_orm() -> None:
        Session.objects.filter(pk=session_id).update(title="title")

    def add_by_statement() -> None:
        with statements() as cursor:
            row = NewSession(new_id(), workspace.pk, "", "title", 0, 0)
            cursor.execute(INSERT_SESSION, row)
            SessionRow(*cursor.fetchone())

    def add_by_orm() -> None:
        Session.objects.create(workspace_id=workspace.pk, title="title")

    def find_nothing_by_statement() -> None:
        with statements() as cursor:
            cursor.execute("SELECT id FROM permissions_questionbatch WHERE run_key = %s", [1])
            cursor.fetchall()

    def find_nothing_by_orm() -> None:
        list(QuestionBatch.objects.filter(run_key=1))

    with transaction.atomic():
        for what, work in [
            ("a session read by a statement", read_by_statement),
            ("the same by the ORM", read_by_orm),
            ("a session changed by a statement", change_by_statement),
            ("the same by the ORM", change_by_orm),
            ("a session added by a statement", add_by_statement),
            ("the same by the ORM", add_by_orm),
            ("no row found by a statement", find_nothing_by_statement),
            ("the same by the ORM", find_nothing_by_orm),
        ]:
            cpu, wall = time.process_time(), time.perf_counter()
            for _ in range(count):
                work()
            _report(what, count, time.process_time() - cpu, time.perf_counter() - wall)
    connection.close()


async def _deliveries(count: int) -> None:
    from channels.layers import InMemoryChannelLayer

    from workspaces.delivery.readers import NativeReader, Wire
    from workspaces.delivery.room import Room
    from workspaces.log.transaction import RecordedEvent

    rounds = count // READERS
    layer = InMemoryChannelLayer(capacity=rounds + 1)
    channels = [await layer.new_channel() for _ in range(READERS)]
    for channel in channels:
        await layer.group_add("workspace", channel)

    async def by_layer() -> None:
        for number in range(rounds):
            await layer.group_send("workspace", {"type": "event", "number": number})
            for channel in channels:
                await layer.receive(channel)

    await _timed("an event to each of 50 readers by the channel layer", rounds * READERS, by_layer)

    room = Room(WORKSPACE, producers={}, request_events=_nothing, request_message=_nothing)
    room.prime(0, {})
    readers = [NativeReader(Wire.WS) for _ in range(READERS)]
    for reader in readers:
        room.join_native(reader)

    async def by_room() -> None:
        for number in range(1, rounds + 1):
            room.publish(
                RecordedEvent(
                    WORKSPACE, number, "config.changed", "", {}, b'{"workspace_id":"x"}', 0
                )
            )
            await asyncio.sleep(0)
            for reader in readers:
                await reader.take()

    await _timed("the same by a room", rounds * READERS, by_room)


def _nothing(*_: object) -> None:
    """Nothing is missing here."""


if __name__ == "__main__":
    main()
