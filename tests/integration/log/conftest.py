"""Workspaces in a real database file, and a writer with a thread of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import DEFAULT_DB_ALIAS, connections

from tests.doubles.tcp_proxy import TcpProxy
from tests.integration.log.writing import Gate, NewWriter
from workspaces.log.writer import Writer
from workspaces.models import Workspace


@pytest.fixture(autouse=True)
def _database(database: str) -> None:
    """Every test of the storage runs on both databases."""


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


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.fixture
def proxy(database: str) -> Iterator[TcpProxy]:
    """New connections of this process lead through it."""
    before = connections.settings[DEFAULT_DB_ALIAS]
    proxy = TcpProxy("127.0.0.1", int(before["PORT"]))
    connections.settings[DEFAULT_DB_ALIAS] = {**before, "PORT": str(proxy.port)}
    yield proxy
    connections.settings[DEFAULT_DB_ALIAS] = before
    proxy.close()
