"""A message's row as the object that clients get."""

from __future__ import annotations

import pytest

from workspaces.log.rows import MESSAGE_COLUMNS, message_of_row, message_wire

ROW = {
    "id": "m",
    "session_id": "s",
    "role": "assistant",
    "parts": '[{"type":"text","data":{"text":"hello"}}]',
    "model": "model",
    "provider": "provider",
    "created_at": 1_999_999,
    "updated_at": 2_000_000,
    "is_summary": False,
}


@pytest.mark.parametrize("is_summary", [False, True])
def test_each_column_has_its_field_and_times_are_in_seconds(is_summary: bool) -> None:
    row = {**ROW, "is_summary": is_summary}

    assert message_of_row([row[name] for name in MESSAGE_COLUMNS.split(", ")]) == {
        "id": "m",
        "session_id": "s",
        "role": "assistant",
        "parts": [{"type": "text", "data": {"text": "hello"}}],
        "model": "model",
        "provider": "provider",
        "created_at": 1_999,
        "updated_at": 2_000,
        **({"is_summary_message": True} if is_summary else {}),
    }


def test_a_message_is_no_summary_unless_it_says_so() -> None:
    message = message_wire(
        id="m",
        session_id="s",
        role="user",
        parts=[],
        model="",
        provider="",
        created_at=0,
        updated_at=0,
    )

    assert "is_summary_message" not in message
