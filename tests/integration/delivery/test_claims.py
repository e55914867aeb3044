"""The claims of attached clients: how often a process writes that its streams are open."""

from __future__ import annotations

import pytest

from tests.integration.runs.ground import open_ground, write
from workspaces.actions.claims import (
    RENEWED_EVERY_MS,
    RENEWED_FOR_MS,
    attach_stream,
    drop_lapsed_claims,
    renew_claims,
)
from workspaces.log.timestamps import now_ms
from workspaces.models import ClientClaim


@pytest.fixture(autouse=True)
def _database(database: str) -> None:
    """On both databases."""


def renewed_from(left_ms: int) -> int:
    """Renews a claim that has so much time left; returns what it has then."""
    workspace_id = open_ground().workspace_id
    write(lambda tx: attach_stream(tx, workspace_id, "b", holder="web"))
    claims = ClientClaim.objects.filter(client_id="b")
    now = now_ms()
    claims.update(expires_at=now + left_ms)
    write(lambda tx: renew_claims(tx, holder="web"))
    return claims.get().expires_at - now


def test_a_claim_that_was_renewed_a_short_time_ago_is_not_written() -> None:
    left = RENEWED_FOR_MS - RENEWED_EVERY_MS // 2
    assert renewed_from(left) == left


@pytest.mark.parametrize("left", [RENEWED_FOR_MS - RENEWED_EVERY_MS, 0, -1000])
def test_other_claims_are_renewed_also_those_that_have_expired(left: int) -> None:
    assert renewed_from(left) >= RENEWED_FOR_MS
    assert "b" not in write(drop_lapsed_claims)
    assert ClientClaim.objects.filter(client_id="b").exists()


def test_a_claim_of_a_time_before_the_clock_was_set_is_renewed() -> None:
    assert renewed_from(3_600_000) < 2 * RENEWED_FOR_MS
