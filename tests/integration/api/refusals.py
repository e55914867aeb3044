"""Sends a bad request, and checks that it changed nothing and that its refusal is readable."""

import logging
from typing import Any

import pytest

from tests.integration.api.client import Answer
from tests.integration.api.conftest import Opened
from workspaces.log.reader import read
from workspaces.models import ClientClaim, FileRead, Session, Workspace

CLIENT = "eb3c634c-feab-48a5-bc50-a4d84fb3b7c3"


def stored() -> list[object]:
    return [
        list(Workspace.objects.values_list("pk", "last_event", "skip_permissions", "sealed_env")),
        sorted(Session.objects.values_list("pk", "title", "last_accept")),
        sorted(ClientClaim.objects.values_list("client_id", "current_session_id")),
        FileRead.objects.count(),
    ]


async def refused(
    workspace: Opened, quiet: pytest.LogCaptureFixture, method: str, address: str, **sent: Any
) -> Answer:
    before = await read(stored)
    answer = await workspace.api.call(method, address, **sent)
    assert 400 <= answer.status < 500, answer
    assert answer.content_type == "application/json"
    assert answer.message
    assert "Traceback" not in answer.message
    assert len(answer.message) < 300
    assert await read(stored) == before
    assert [record for record in quiet.records if record.levelno > logging.INFO] == []
    return answer
