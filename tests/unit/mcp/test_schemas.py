"""Schemas of servers: made safe to send on, and never able to keep the loop."""

import time
from typing import Any

import pytest

from agents.tools.mcp.schemas import fault_in, safe_schema

OPEN = {"type": "object", "properties": {}}


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def doubling(steps: int) -> dict[str, Any]:
    """Small to read, and 2 to this power to check."""
    definitions: dict[str, Any] = {"d0": {"type": "integer"}}
    for n in range(1, steps):
        reference = {"$ref": f"#/$defs/d{n - 1}"}
        definitions[f"d{n}"] = {"allOf": [reference, reference]}
    return {
        "type": "object",
        "properties": {"x": {"$ref": f"#/$defs/d{steps - 1}"}},
        "$defs": definitions,
    }


def test_an_honest_schema_stays_as_it_is() -> None:
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string", "description": "d", "pattern": "^a"}},
        "required": ["title"],
    }
    assert safe_schema(schema) == schema


@pytest.mark.parametrize("given", [None, [], "x", {"type": "string"}, {}, deep(40)])
def test_what_is_no_schema_of_an_object_lets_everything_through(given: object) -> None:
    assert safe_schema(given) == OPEN


def test_names_of_the_schema_itself_are_left_out() -> None:
    schema = safe_schema({"$schema": "http://x", "$id": "y", "type": "object", "properties": {}})
    assert schema == OPEN


def test_a_list_of_required_fields_that_is_none_goes() -> None:
    assert safe_schema({"type": "object", "properties": {}, "required": "all"}) == OPEN


def test_a_large_schema_loses_its_prose_and_then_all() -> None:
    property_ = {"type": "string", "description": "x" * 1000}
    many = {"type": "object", "properties": {f"p{n}": property_ for n in range(100)}}
    assert safe_schema(many)["properties"]["p1"] == {"type": "string"}
    more = {"type": "object", "properties": {f"p{n}": property_ for n in range(10_000)}}
    assert safe_schema(more) == OPEN


def test_a_property_may_be_called_like_prose() -> None:
    long = {"type": "string", "description": "x" * 70_000}
    schema = safe_schema({"type": "object", "properties": {"title": long}})
    assert schema["properties"] == {"title": {"type": "string"}}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"count": "x"}, "count: 'x' is not of type 'integer'"),
        ({}, "'count' is a required property"),
        ({"count": 1, "items": [{"name": 1}]}, "items[0].name: 1 is not of type 'string'"),
        ({"count": 1, "mode": "c"}, "mode: 'c' is not one of ['a', 'b']"),
        ({"count": 1, "items": [{"name": "x"}], "mode": "a", "more": None}, ""),
    ],
)
def test_a_fault_names_its_field(arguments: dict[str, Any], told: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "count": {"type": "integer"},
            "mode": {"enum": ["a", "b"]},
            "items": {
                "type": "array",
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
        },
        "required": ["count"],
    }
    assert fault_in(arguments, schema) == told


def test_a_fault_is_cut() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert len(fault_in({"x": "y" * 100_000}, schema)) < 400


@pytest.mark.parametrize(
    "schema",
    [
        doubling(60),
        {"type": "object", "properties": {"x": {"pattern": "(a+)+$"}}},
        {"$ref": "#"},
        {"$ref": "http://127.0.0.1:1/schema"},
        {"properties": {"x": {"type": "no such type"}}},
        {"properties": []},
    ],
)
def test_a_schema_built_to_run_for_ever_is_left_to_the_server(schema: dict[str, Any]) -> None:
    fault_in({}, {})
    began = time.monotonic()
    assert fault_in({"x": "a" * 40 + "!"} if "$defs" not in schema else {"x": 1}, schema) == ""
    assert time.monotonic() - began < 60
