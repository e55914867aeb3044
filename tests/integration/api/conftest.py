"""The API in this process, with the real writer and a real database file."""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from django.apps import apps
from django.core.management.color import no_style
from django.db import connection
from pytest_django import DjangoDbBlocker

from agents.config.cache import configs
from tests.integration.api.client import Api
from workspaces.log.reader import stop_reading
from workspaces.log.writer import writer

APPS = ("agents", "notifications", "people", "permissions", "workspaces")


@pytest.fixture
def transactional_db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The plugin's fixture of this name, only quicker: it empties our own tables alone.

    The framework's flush builds all its permissions anew, which takes longer than most tests
    here. The name stays, because by it the plugin knows that a database is needed.
    """
    with django_db_blocker.unblock():
        yield
        models = [
            m
            for label in APPS
            for m in apps.get_app_config(label).get_models(include_auto_created=True)
        ]
        tables = [model._meta.db_table for model in models]
        connection.ops.execute_sql_flush(connection.ops.sql_flush(no_style(), tables))


@pytest_asyncio.fixture
async def api(transactional_db: None) -> AsyncIterator[Api]:
    configs.cache_clear()
    writer.start(publish=None, loop=asyncio.get_running_loop())
    api = Api()
    yield api
    await api.handler.finish()
    await asyncio.to_thread(writer.stop)
    await asyncio.to_thread(stop_reading)


@dataclass
class Opened:
    api: Api
    id: str
    client_id: str
    path: Path
    answer: Any

    @property
    def url(self) -> str:
        return f"/v1/workspaces/{self.id}"

    async def session(self, title: str = "t") -> str:
        return str((await self.api.post(f"{self.url}/sessions", {"title": title}))["id"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest_asyncio.fixture
async def workspace(api: Api, folder: Path) -> Opened:
    client_id = str(uuid.uuid4())
    answer = await api.post("/v1/workspaces", {"path": str(folder), "client_id": client_id})
    return Opened(api, answer["id"], client_id, folder, answer)


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog
