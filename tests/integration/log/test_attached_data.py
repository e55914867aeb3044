"""Attached files are stored once, and come back as they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from workspaces.log.attached_data import SMALLEST_CHARS, load_attached, store_attached
from workspaces.log.commits import run_alone
from workspaces.models import Attachment

Part = Mapping[str, Any]


def binary(content: Any, path: str = "a.png") -> Part:
    return {"type": "binary", "data": {"Path": path, "MIMEType": "image/png", "Data": content}}


def stored(workspace_id: str, *parts: Part) -> list[Part]:
    return run_alone("", lambda tx: store_attached(tx.cursor, workspace_id, parts, now=7))[0]


def loaded(parts: list[Part]) -> list[Part]:
    text = orjson.dumps(parts).decode()
    found: list[Part] = orjson.loads(run_alone("", lambda tx: load_attached(tx.cursor, text))[0])
    return found


def test_each_file_comes_back_as_it_was(workspaces: list[str]) -> None:
    parts = [binary(letter * SMALLEST_CHARS, f"{letter}.png") for letter in "ab"]

    rows = stored(workspaces[0], *parts)

    assert all(len(orjson.dumps(row)) < 200 for row in rows)
    assert loaded(rows) == parts
    contents = Attachment.objects.values_list("content", "workspace_id", "created_at")
    assert set(contents) == {(letter * SMALLEST_CHARS, workspaces[0], 7) for letter in "ab"}


def test_the_same_file_is_stored_once_for_each_workspace(workspaces: list[str]) -> None:
    part = binary("a" * SMALLEST_CHARS)
    first, second = stored(workspaces[0], part), stored(workspaces[0], part)
    other = stored(workspaces[1], part)

    assert first == second
    assert other != first
    owners = Attachment.objects.values_list("workspace_id", flat=True)
    assert sorted(owners) == sorted(workspaces[:2])
    assert loaded(other) == [part]


@pytest.mark.parametrize(
    "part",
    [
        binary("a" * (SMALLEST_CHARS - 1)),
        binary(None),
        {"type": "binary", "data": {"Path": "a.png"}},
        {"type": "text", "data": {"text": "a" * SMALLEST_CHARS, "Data": "b" * SMALLEST_CHARS}},
    ],
)
def test_what_is_small_or_no_file_stays_where_it_is(workspaces: list[str], part: Part) -> None:
    assert stored(workspaces[0], part) == [part]
    assert not Attachment.objects.exists()


def test_a_text_that_looks_like_a_reference_stays_a_text(workspaces: list[str]) -> None:
    (row,) = stored(workspaces[0], binary("a" * SMALLEST_CHARS))
    reference = orjson.dumps(row["data"]).decode()
    text = {"type": "text", "data": {"text": reference}}

    assert loaded([text]) == [text]
    assert loaded([text, row]) == [text, binary("a" * SMALLEST_CHARS)]


def test_a_file_that_is_gone_is_empty(workspaces: list[str]) -> None:
    rows = stored(workspaces[0], binary("a" * SMALLEST_CHARS))
    Attachment.objects.all().delete()

    assert loaded(rows) == [binary("")]
