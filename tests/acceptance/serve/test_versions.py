"""A start on a database of another version is refused in one sentence, which names the cure."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.harness.environment import manage, server_environment
from tests.acceptance.harness.processes import Process
from tests.acceptance.harness.services import Services
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.serve.starting import MakeServer, Serve, refused_to_start

LATER = "INSERT INTO django_migrations (app, name, applied) VALUES ('agents', '9999_later', '2026-01-01')"
Start = Callable[[str, str], Process]


@pytest.fixture
def start(services: Services, tmp_path: Path) -> Iterator[Start]:
    """`start("web", DATABASE_URL)`: a process of the scaled shape on that database."""
    started: list[Process] = []

    def make(command: str, database_url: str) -> Process:
        env = {"DATABASE_URL": database_url, "REDIS_URL": services.redis.new_url()}
        arguments = [command, "--host", "tcp://127.0.0.1:0"] if command == "web" else [command]
        process = manage(
            command,
            arguments,
            env=server_environment(tmp_path / "home", tmp_path / "data", env),
            log=tmp_path / f"{command}.log",
        )
        process.start()
        started.append(process)
        return process

    yield make
    for process in started:
        process.kill9()


def test_processes_that_share_a_database_do_not_start_before_it_is_migrated(
    services: Services, start: Start
) -> None:
    name = services.postgres.create_database()
    try:
        for command in ("web", "runworker"):
            sentence = refused_to_start(start(command, services.postgres.url(name)))
            assert "The database lacks" in sentence
            assert "run `manage.py migrate` once" in sentence
    finally:
        services.postgres.drop_database(name)


async def test_processes_that_share_a_database_do_not_start_on_a_newer_one(
    make_a_server: MakeServer, start: Start
) -> None:
    server: Server = make_a_server(Shape.SCALED)
    url = server.env["DATABASE_URL"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(LATER)
    for command in ("web", "runworker"):
        sentence = await asyncio.to_thread(refused_to_start, start(command, url))
        assert "A newer version of this program has migrated the database" in sentence
        assert "agents.9999_later" in sentence


def test_one_process_alone_does_not_start_on_a_newer_database(serve: Serve, tmp_path: Path) -> None:
    first = serve("--host", "tcp://127.0.0.1:0")
    first.wait_for_line("Serving", 60)
    assert first.stop() == 0
    with closing(sqlite3.connect(tmp_path / "data" / "server.sqlite3")) as database:
        database.execute(LATER)
        database.commit()
    sentence = refused_to_start(serve("--host", "tcp://127.0.0.1:0"))
    assert "A newer version of this program has migrated the database" in sentence
