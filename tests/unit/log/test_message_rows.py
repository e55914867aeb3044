"""A message's row as the object that clients get."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from workspaces.log.rows import (
    INSERT_MESSAGE,
    INSERT_SESSION,
    MessageRow,
    NewMessage,
    NewSession,
    message_for_v1,
    message_wire,
)

ROW: dict[str, Any] = {
    "id": "m",
    "session_id": "s",
    "role": "assistant",
    "parts": '[{"type":"text","data":{"text":"hello"}}]',
    "model": "model",
    "provider": "provider",
    "created_at": 1_999_999,
    "updated_at": 2_000_000,
    "is_summary": False,
    "author": None,
}


@pytest.mark.parametrize("is_summary", [False, True])
def test_each_column_has_its_field_and_times_are_in_seconds(is_summary: bool) -> None:
    row = {**ROW, "is_summary": is_summary}

    assert message_wire(MessageRow(**row)) == {
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


def test_a_new_message_is_shown_as_it_will_be_read() -> None:
    columns = {name: ROW.get(name, "") for name in NewMessage._fields}
    columns["author"] = ROW["author"]
    parts = [{"type": "text", "data": {"text": "hello"}}]

    added = message_wire(NewMessage(**columns), parts)

    assert added == message_wire(MessageRow(**ROW))


def test_an_author_is_shown_to_native_clients_only() -> None:
    ann = {"kind": "user", "name": "ann", "user_id": "7"}
    shown = message_wire(MessageRow(**{**ROW, "author": orjson.dumps(ann).decode()}))

    assert shown["author"] == ann
    assert message_for_v1(shown) == message_wire(MessageRow(**ROW))


@pytest.mark.parametrize(
    ("statement", "row"), [(INSERT_MESSAGE, NewMessage), (INSERT_SESSION, NewSession)]
)
def test_each_column_of_a_new_row_has_its_place_in_the_statement(statement: str, row: Any) -> None:
    names, _, rest = statement.partition(" VALUES ")
    values = rest.partition(" RETURNING ")[0]
    assert names.count(",") == values.count(",") == len(row._fields) - 1
