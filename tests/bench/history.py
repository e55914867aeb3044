"""`python -m tests.bench.history`: lists, the search and the snapshot with 100,000 messages stored.

Fills a database by statements, indexes it as after an upgrade, starts the real server on it, and
sends requests one after another on one connection. `--database postgresql` starts one.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson

from tests.acceptance.harness.environment import ROOT, server_environment
from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.processes import Process
from tests.bench.database import start_postgres
from tests.bench.distribution import distribution
from tests.bench.http_client import HttpClient
from tests.bench.subjects import answers

WORKSPACES, SESSIONS, LONG = 50, 30, 10_000
TIMES = 100
WORDS = [f"word{number}" for number in range(20_000)]
COMMON = ["the", "a", "of", "file", "test", "run"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.history", description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--messages", type=int, default=100_000)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crush-history-")))
        extra = {"CRUSH_DATA_DIR": str(folder / "data"), "CRUSH_SERVER_CREATE_GRACE": "600"}
        if options.database == "postgresql":
            extra |= {"DATABASE_URL": start_postgres(stack, folder)}
        (folder / "data").mkdir(mode=0o700)
        os.environ |= extra | {"DJANGO_SETTINGS_MODULE": "crushsite.settings"}
        workspaces, long_session = _fill(folder, options.messages)
        port = free_port()
        process = Process(
            "server",
            [sys.executable, "manage.py", "serve", "--host", f"tcp://127.0.0.1:{port}"],
            env=server_environment(folder / "home", folder / "data", extra),
            cwd=ROOT,
            log=folder / "server.log",
        )
        process.start()
        stack.callback(process.stop, 30)
        url = f"http://127.0.0.1:{port}"
        answers(f"{url}/v1/health")
        asyncio.run(_measure(url, workspaces, long_session))


def _fill(folder: Path, count: int) -> tuple[dict[str, str], str]:
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection, transaction

    from workspaces.actions.search_texts import fill_step
    from workspaces.log.commits import run_alone
    from workspaces.log.rows import INSERT_MESSAGE
    from workspaces.models import SearchFill, Session, Workspace

    call_command("migrate", verbosity=0)
    began = time.perf_counter()
    workspaces: dict[str, str] = {}
    sessions: list[tuple[str, str]] = []
    for number in range(WORKSPACES):
        path = folder / f"project-{number}"
        path.mkdir()
        row = Workspace.objects.create(path=str(path.resolve()), data_dir=str(path / ".crush"))
        workspaces[row.pk] = row.path
        sessions += [
            (row.pk, Session.objects.create(workspace=row, title=f"session {each}").pk)
            for each in range(SESSIONS)
        ]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(INSERT_MESSAGE, _rows(sessions, count))
    SearchFill.objects.update(is_done=False, until=2**62)
    middle = time.perf_counter()
    while run_alone("", fill_step)[0]:
        pass
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
    end = time.perf_counter()
    print(f"{count:,} messages: stored in {middle - began:.0f} s, indexed in {end - middle:.0f} s")
    connection.close()
    return workspaces, sessions[0][1]


def _rows(sessions: list[tuple[str, str]], count: int) -> Iterator[tuple[Any, ...]]:
    chance, now = random.Random(1), int(time.time() * 1000)
    others = sessions[1:]
    for number in range(count):
        workspace, session = sessions[0] if number < LONG else others[number % len(others)]
        text = " ".join(chance.choices(COMMON, k=25) + chance.choices(WORDS, k=35))
        role = ("user", "assistant")[number % 2]
        parts = orjson.dumps([{"type": "text", "data": {"text": text}}]).decode()
        head = (str(uuid.UUID(int=chance.getrandbits(128))), workspace, session, number + 1, 0)
        yield (*head, role, parts, "m", "p", True, False, None, now, now, None)


async def _measure(url: str, workspaces: dict[str, str], long_session: str) -> None:
    http = HttpClient(url)
    client_id = str(uuid.uuid4())
    for path in workspaces.values():
        await http.call("POST", "/v1/workspaces", {"path": path, "client_id": client_id})
    first, *_, last = workspaces
    base = f"/api/workspaces/{first}"
    session = f"{base}/sessions/{long_session}"
    requests = {
        "board of 50 workspaces (at most 15 ms)": "/api/board",
        "sessions of a workspace (at most 15 ms)": f"{base}/sessions",
        "50 of 10,000 messages (at most 15 ms)": f"{session}/messages",
        "snapshot, limit=150 of 10,000 (at most 10 ms)": (
            f"{base}/snapshot?session={long_session}&limit=150"
        ),
        "search: a common word (at most 100 ms)": "/api/search?q=the",
        "search: a rare word (at most 100 ms)": "/api/search?q=word12345",
        "search: the beginning of 100 words (at most 100 ms)": "/api/search?q=word123",
        "search: common words in one workspace (at most 100 ms)": (
            f"/api/search?q=the%20file%20run&workspace={last}"
        ),
        "search: a common and a rare word (at most 100 ms)": "/api/search?q=the%20word777",
        "search: a common word in a session (at most 100 ms)": (
            f"/api/search?q=test&session={long_session}"
        ),
        "search: nothing (at most 100 ms)": "/api/search?q=nothing",
    }
    print("| | least (ms) | p50 (ms) | p99 (ms) |\n|---|---:|---:|---:|")
    for title, address in requests.items():
        taken = [await _milliseconds(http, address) for _ in range(TIMES)]
        _report(title, taken)
    taken = []
    for number in range(TIMES):
        await http.call("PATCH", session, {"title": f"title {number}"})
        taken.append(await _milliseconds(http, "/api/board"))
    _report("board after a change in one of 50 workspaces (at most 15 ms)", taken)
    # The server keeps what it has read for each number of sessions.
    taken = [await _milliseconds(http, f"/api/board?sessions={number}") for number in range(1, 11)]
    _report("board of 50 workspaces, read for the first time", taken)
    http.close()
    print(f"\nLoad of the machine: {os.getloadavg()[0]:.1f}.")


async def _milliseconds(http: HttpClient, address: str) -> float:
    _, seconds = await http.call("GET", address)
    return seconds * 1000


def _report(title: str, taken: list[float]) -> None:
    found = distribution(taken)
    assert found is not None
    print(f"| {title} | {min(taken):.1f} | {found.p50:.1f} | {found.p99:.1f} |", flush=True)


if __name__ == "__main__":
    main()
