"""The JSON Schemas of events: complete, valid, and described to the last field."""

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.stream_schemas import check_event, check_item, described
from workspaces.log.types import Kind, StreamOnly
from workspaces.rest.stream_schema import DIALECT, item_schema, stream_schema

RUN = {"key": 1, "session_id": "s", "accept_number": 1}


def test_every_event_type_and_every_other_item_has_a_schema() -> None:
    """A new kind needs a line in ``workspaces/schemas/events.py``."""
    assert described() == {*map(str, Kind), *map(str, StreamOnly), "delta", "deltas", "reply"}


def test_the_document_is_a_valid_schema_of_its_dialect() -> None:
    assert stream_schema()["$schema"] == DIALECT
    Draft202012Validator.check_schema(stream_schema())


def undescribed(schema: Any, path: str) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        if len(field.get("description", "").strip()) < 3:
            yield f"{path}.{name}"


def test_every_object_and_every_field_has_a_description() -> None:
    """In the type: a docstring for the object, a text below each field."""
    definitions = stream_schema()["$defs"]
    missing = [field for name, schema in definitions.items() for field in undescribed(schema, name)]
    missing += [
        name
        for name, schema in definitions.items()
        if "$ref" not in schema and not schema.get("description")
    ]
    assert missing == []


@pytest.mark.parametrize("kind", sorted(described()))
def test_the_schema_of_one_type_contains_all_that_it_refers_to(kind: str) -> None:
    schema = item_schema(kind)
    assert schema is not None
    Draft202012Validator.check_schema(schema)
    text = str(schema)
    for name in schema.get("$defs", {}):
        assert f"#/$defs/{name}'" in text


def test_an_unknown_type_has_no_schema() -> None:
    assert item_schema("Run") is None
    assert item_schema("run.forgotten") is None


def test_objects_of_clients_may_get_more_fields() -> None:
    later = {"number": 1, "type": "run.started", "data": {"run": {**RUN, "colour": "red"}}}
    schema = item_schema("run.started")
    assert schema is not None
    assert Draft202012Validator(schema).is_valid(later)
    assert Draft202012Validator(stream_schema()).is_valid(later)


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        ({**RUN, "colour": "red"}, "colour"),
        ({**RUN, "key": "1"}, "data.run.key"),
        ({"key": 1, "session_id": "s"}, "accept_number"),
        ({**RUN, "kind": "prompt"}, "data.run.kind"),
    ],
)
def test_a_check_finds_what_no_schema_describes(run: dict[str, Any], reason: str) -> None:
    check_event(1, "run.started", {"run": RUN})
    with pytest.raises(AssertionError, match=reason):
        check_event(1, "run.started", {"run": run})


def test_a_check_names_the_part_that_is_wrong() -> None:
    message = {
        "id": "m",
        "session_id": "s",
        "role": "user",
        "parts": [{"type": "text", "data": {"text": 5}}],
        "model": "",
        "provider": "",
        "created_at": 1,
        "updated_at": 1,
    }
    with pytest.raises(AssertionError, match=r"message\.parts\.0"):
        check_event(1, "message.created", {"message": message})


def test_an_item_of_an_unknown_type_is_an_error() -> None:
    with pytest.raises(AssertionError, match=r"'run\.forgotten'"):
        check_item({"number": 1, "type": "run.forgotten", "data": {}})


@pytest.mark.parametrize(
    "delta",
    [
        [1, 0, 0, "text"],
        [1, 0, 0, "text", "reasoning"],
        [1, 2, 0, "", {"type": "tool_call", "id": "c", "name": "ls"}],
    ],
)
def test_deltas_are_arrays_with_and_without_a_header(delta: list[Any]) -> None:
    check_item(delta)


@pytest.mark.parametrize(
    "delta", [[1, 0, 0], [1, 0, -1, "x"], [1, 0, 0, "x", "image"], [1, 0, 0, "x", "text", 1]]
)
def test_other_arrays_are_no_deltas(delta: list[Any]) -> None:
    with pytest.raises(AssertionError):
        check_item(delta)
