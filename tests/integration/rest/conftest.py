"""Native resources in this process: Django's own handler, the real writer and a database file."""

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio
from django.core.cache import cache

from crushsite.asgi.routing import LazyDjango
from tests.integration.api.client import Api
from tests.integration.api.conftest import (  # noqa: F401  fixtures
    Opened,
    api,
    folder,
    quiet,
    transactional_db,
    workspace,
)


@pytest_asyncio.fixture
async def rest(api: Api) -> AsyncIterator[Api]:  # noqa: F811
    """Calls native resources; `api` is there for `/v1`."""
    pages = LazyDjango()
    yield Api(pages)
    await pages.finish()
    await asyncio.to_thread(cache.clear)
