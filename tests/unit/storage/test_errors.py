"""What clients are answered: each refusal has a code, a status and a sentence."""

import pytest

from workspaces.log import errors

STATUSES = {
    "bad_field": 400,
    "client_not_attached": 409,
    "client_retired": 409,
    "commands_running": 409,
    "cursor_ahead": 409,
    "database_locked": 503,
    "database_unreachable": 503,
    "language_server_unknown": 404,
    "mcp_server_unknown": 404,
    "mcp_unavailable": 502,
    "outcome_unknown": 503,
    "queue_full": 429,
    "refused": 400,
    "run_id_taken": 409,
    "session_unknown": 404,
    "shutting_down": 503,
    "skill_unknown": 404,
    "still_in_use": 409,
    "storage_full": 507,
    "workspace_unknown": 404,
}
REFUSALS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.Refusal)
]


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_refusal_has_its_status_and_a_sentence(kind: type[errors.Refusal]) -> None:
    assert STATUSES[kind.code] == kind.status
    assert kind().sentence == str(kind())
    assert kind().sentence
    assert kind("in other words").sentence == "in other words"


def test_no_two_refusals_share_a_code() -> None:
    codes = [kind.code for kind in REFUSALS]
    assert len(set(codes)) == len(codes)
