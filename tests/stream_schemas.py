"""Checks items of native streams against the published schemas, without further fields.

The published schemas allow more fields, because objects may get some. Here a field that no schema
describes is an error: whoever adds one describes it in `workspaces/schemas/`.
"""

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from workspaces.rest.stream_schema import DELTA, item_schema, stream_schema


def kind_of(item: Any) -> str:
    return str(item.get("type", "")) if isinstance(item, dict) else DELTA


def check_item(item: Any) -> None:
    """Raises ``AssertionError`` if the item does not fit the schema of its type."""
    kind = kind_of(item)
    validator = _validator(kind)
    assert validator is not None, f"no schema describes items of the type {kind!r}"
    errors = [
        f"{kind}: {'.'.join(map(str, error.absolute_path))}: {_reason(error)}"
        for error in validator.iter_errors(item)
    ]
    assert not errors, "\n".join([*errors, "Describe new fields in workspaces/schemas/."])


def check_event(number: int, kind: str, payload: Any) -> None:
    check_item({"number": number, "type": kind, "data": payload})


@cache
def _validator(kind: str) -> Draft202012Validator | None:
    schema = item_schema(kind)
    return None if schema is None else Draft202012Validator(_closed(schema))


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(value) for name, value in schema.items()}
    if "properties" in schema and "type" in schema and "additionalProperties" not in schema:
        closed["additionalProperties"] = False
    return closed


def _reason(error: Any) -> str:
    """The error of the alternative that fits best, for instance of a message's part."""
    if error.context:
        error = min(error.context, key=lambda e: (len(e.relative_schema_path), e.message))
    return str(error.message)[:500]


def described() -> set[str]:
    """The types of all items that have a schema."""
    return {reference["$ref"].rpartition("/")[2] for reference in stream_schema()["anyOf"]}
