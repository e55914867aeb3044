"""What clients are answered: each refusal has a code, a status and a sentence."""

import pytest

from workspaces.log import errors

STATUSES = {
    "approval_unknown": 404,
    "bad_field": 400,
    "browser_session_unknown": 404,
    "client_not_attached": 409,
    "client_retired": 409,
    "commands_running": 409,
    "cursor_ahead": 409,
    "cursor_expired": 409,
    "database_locked": 503,
    "database_unreachable": 503,
    "forbidden": 403,
    "forbidden_to_tools": 403,
    "grant_unknown": 404,
    "group_role_unknown": 404,
    "idempotency_key_in_use": 409,
    "idempotency_key_taken": 422,
    "job_unknown": 404,
    "language_server_unknown": 404,
    "login_link_invalid": 410,
    "mcp_server_failed": 409,
    "mcp_server_unknown": 404,
    "mcp_unavailable": 502,
    "message_unknown": 404,
    "model_kind_unknown": 404,
    "no_repository": 409,
    "outcome_unknown": 503,
    "owner_needed": 409,
    "question_unknown": 404,
    "queue_changed": 409,
    "queue_full": 429,
    "refused": 400,
    "rewind_outdated": 409,
    "rewind_unfinished": 409,
    "rewind_unknown": 404,
    "run_id_taken": 409,
    "run_not_queued": 409,
    "run_not_repeatable": 409,
    "run_unknown": 404,
    "session_busy": 409,
    "session_unknown": 404,
    "shutting_down": 503,
    "skill_unknown": 404,
    "still_in_use": 409,
    "storage_full": 507,
    "stream_item_unknown": 404,
    "token_unknown": 404,
    "too_many_attempts": 429,
    "unauthenticated": 401,
    "user_taken": 409,
    "user_unknown": 404,
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
