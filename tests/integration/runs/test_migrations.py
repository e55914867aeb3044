"""Migrations of runs keep what earlier versions have stored, in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from django.db import DEFAULT_DB_ALIAS, connection
from django.db.migrations.executor import MigrationExecutor

from agents.models import Run
from crushsite.apps import lift_session_limits
from tests.integration.runs.ground import Ground

BEFORE = ("agents", "0006_run_client")
CALL = {"call-1": {"decision": "allow", "reason": "why", "context": "", "shown": {"n": 1}}}
STORED: list[tuple[dict[str, Any], tuple[str, str, str, dict[str, Any]]]] = [
    ({}, ("", "", "", {})),
    ({"working_dir": "/a b/ü", "role": ""}, ("/a b/ü", "", "", {})),
    (
        {"working_dir": "", "role": "reader", "answer": "all\ndone"},
        ("", "reader", "all\ndone", {}),
    ),
    (
        {"working_dir": "/a", "role": "", "answer": "x", "hooks": CALL},
        ("/a", "", "x", CALL),
    ),
    ({"hooks": CALL}, ("", "", "", CALL)),
]


@pytest.fixture
def old_runs(ground: Ground) -> Iterator[Any]:
    """The runs as the version before the columns sees them."""
    try:
        yield migrate(BEFORE).get_model("agents", "Run").objects
    finally:
        migrate(*MigrationExecutor(connection).loader.graph.leaf_nodes())


def migrate(*targets: tuple[str, str]) -> Any:
    """Migrates to these states, without the limits of a session, as the command does."""
    lift_session_limits(using=DEFAULT_DB_ALIAS)
    try:
        MigrationExecutor(connection).migrate(list(targets))
    finally:
        connection.close()
    return MigrationExecutor(connection).loader.project_state(list(targets)).apps


def insert(runs: Any, ground: Ground, errand: str, **more: Any) -> int:
    run = runs.create(
        workspace_id=ground.workspace_id,
        session_id=ground.session_id,
        accept_number=runs.count() + 1,
        state="finished",
        errand=errand,
        **more,
    )
    return int(run.pk)


def columns(key: int) -> tuple[str, str, str, dict[str, Any]]:
    row = Run.objects.filter(pk=key).values_list("working_dir", "role", "answer", "hook_decisions")
    *texts, decisions = row.get()
    return (*texts, orjson.loads(decisions))


def test_each_meaning_of_the_old_column_gets_its_own_and_the_way_back_joins_them(
    ground: Ground, old_runs: Any
) -> None:
    parent = insert(old_runs, ground, "{}")
    keys = [
        insert(
            old_runs,
            ground,
            orjson.dumps(errand).decode(),
            parent_id=parent if "role" in errand else None,
        )
        for errand, _ in STORED
    ]

    migrate(("agents", "0007_run_delegation"))
    assert [columns(key) for key in keys] == [expected for _, expected in STORED]

    migrate(BEFORE)
    again = [orjson.loads(old_runs.get(pk=key).errand) for key in keys]
    assert again == [errand for errand, _ in STORED]


def test_a_nul_in_the_old_json_becomes_a_replacement_character(
    ground: Ground, old_runs: Any
) -> None:
    key = insert(old_runs, ground, '{"answer": "a\\u0000b", "role": null}')
    migrate(("agents", "0007_run_delegation"))
    assert columns(key) == ("", "", "a\ufffdb", {})


def test_more_runs_than_one_page_are_moved(ground: Ground, old_runs: Any) -> None:
    old_runs.bulk_create(
        old_runs.model(
            workspace_id=ground.workspace_id,
            session_id=ground.session_id,
            accept_number=number,
            state="finished",
            errand=orjson.dumps({"role": f"role {number}"}).decode(),
        )
        for number in range(1, 1_102)
    )
    migrate(("agents", "0007_run_delegation"))
    moved = Run.objects.order_by("accept_number").values_list("role", flat=True)
    assert list(moved) == [f"role {number}" for number in range(1, 1_102)]
