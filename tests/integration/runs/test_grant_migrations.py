"""The migration of grants keeps what earlier versions have stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from permissions.models import Grant, PermissionRequest, QuestionBatch
from tests.integration.runs.answering import verdict, waiting
from tests.integration.runs.ground import Ground
from tests.integration.runs.test_migrations import migrate

BEFORE = ("permissions", "0004_grant_scope")


@pytest.fixture
def old(ground: Ground) -> Iterator[Any]:
    """The models as the version before sees them."""
    try:
        yield migrate(BEFORE)
    finally:
        # Of all apps: going back has also undone the migrations that depend on these.
        migrate(*MigrationExecutor(connection).loader.graph.leaf_nodes())


def test_requests_grants_and_questions_are_kept(ground: Ground, old: Any) -> None:
    for number in range(3):
        old.get_model("permissions", "Grant").objects.create(
            session_id=ground.session_id, tool_name="bash", action="execute", path=f"/{number}"
        )
    common = {
        "workspace_id": ground.workspace_id,
        "session_id": ground.session_id,
        "run_key": 1,
        "tool_call_id": "c",
    }
    old.get_model("permissions", "PermissionRequest").objects.create(
        **common, tool_name="bash", action="execute", path="/", state="allowed", answered_at=5
    )
    old.get_model("permissions", "QuestionBatch").objects.create(**common, questions=[{"id": "q"}])

    migrate(*MigrationExecutor(connection).loader.graph.leaf_nodes("permissions"))

    assert set(Grant.objects.values_list("workspace_id", "session_id", "scope", "path")) == {
        (ground.workspace_id, ground.session_id, "session", f"/{number}") for number in range(3)
    }
    request = PermissionRequest.objects.get()
    assert (request.state, request.author, request.answered_at) == ("allowed", None, 5)
    assert QuestionBatch.objects.get().questions == [{"id": "q"}]


def test_a_grant_of_an_earlier_version_is_the_owners(ground: Ground, old: Any) -> None:
    old.get_model("permissions", "Grant").objects.create(
        session_id=ground.session_id, tool_name="bash", action="execute", path="/project"
    )
    migrate(*MigrationExecutor(connection).loader.graph.leaf_nodes("permissions"))
    held = waiting(ground, "c", session_id=ground.session_id)
    assert verdict(held).value == "allowed"
