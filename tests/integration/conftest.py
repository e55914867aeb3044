"""Databases for integration tests that concern queries, leases and locks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from tests.integration.databases import POSTGRESQL, SQLITE, Databases


@pytest.fixture(scope="session")
def databases(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> Iterator[Databases]:
    made = Databases(tmp_path_factory.mktemp, django_db_blocker)
    yield made
    made.stop()


@pytest.fixture(params=[SQLITE, POSTGRESQL])
def database(request: pytest.FixtureRequest, databases: Databases) -> Iterator[str]:
    """The test runs once on each database."""
    with databases.get(request.param).use():
        yield request.param
