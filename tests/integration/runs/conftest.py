"""Every test of the actions runs on both databases, and their events fit the published schemas."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pytest

from tests.integration.runs.ground import Ground, open_ground
from tests.stream_schemas import check_event
from workspaces.delivery.event_log import read_events
from workspaces.models import Workspace


@pytest.fixture(autouse=True)
def _database(database: str) -> None:
    """On each of them."""


@pytest.fixture
def ground(_database: None) -> Iterator[Ground]:
    yield open_ground()
    for workspace_id in Workspace.objects.values_list("pk", flat=True):
        for event in read_events(workspace_id, after=0, limit=10_000):
            if not event.kind.startswith("test."):
                check_event(event.number, event.kind, orjson.loads(event.payload_json))
