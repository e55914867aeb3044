"""Texts and JSON documents that PostgreSQL can store."""

from __future__ import annotations

import orjson
import pytest

from workspaces.storable import storable_json, storable_text


def test_a_nul_becomes_one_other_character() -> None:
    assert storable_text("a\0b\0\0") == "a\ufffdb\ufffd\ufffd"


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("a\0b\0\0", "a\ufffdb\ufffd\ufffd"),
        ("\\\0\\\\\0", "\\\ufffd\\\\\ufffd"),
        ("the escape \\u0000 and \\\\u0000", "the escape \\u0000 and \\\\u0000"),
        ("\ufffd é 😀", "\ufffd é 😀"),
    ],
)
def test_a_document_has_no_nul_and_else_the_same_texts(text: str, stored: str) -> None:
    document = {text: [text, 1, None]}
    assert orjson.loads(storable_json(orjson.dumps(document))) == {stored: [stored, 1, None]}
