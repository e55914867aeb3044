"""The JSON Schemas (2020-12) of events and of other stream items, made from their types."""

from __future__ import annotations

from functools import cache
from inspect import getmembers
from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import is_typeddict

from workspaces.access import Right
from workspaces.log.errors import StreamItemUnknown
from workspaces.rest.view import Resource
from workspaces.schemas import approvals, events, messages, objects, payloads

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DELTA = "delta"
DELTAS = "deltas"
REPLY = "reply"
_SUFFIX = "Data"
_DEFS = "#/$defs/"

_HEADER = {
    "description": "The type of the part that a delta begins.",
    "anyOf": [
        {"enum": ["text", "reasoning"]},
        {
            "type": "object",
            "description": "A tool call, whose arguments follow.",
            "properties": {
                "type": {"const": "tool_call", "description": "The part's type."},
                "id": {"type": "string", "description": "The call's id."},
                "name": {"type": "string", "description": "The tool's name."},
            },
            "required": ["type", "id", "name"],
        },
    ],
}
_DELTA = {
    "type": "array",
    "description": "New text of an open message.",
    "prefixItems": [
        {
            "type": "integer",
            "description": "The number of the event that started the message.",
        },
        {"type": "integer", "minimum": 0, "description": "The index of the part."},
        {
            "type": "integer",
            "minimum": 0,
            "description": "The number of characters (Unicode code points) before this text.",
        },
        {"type": "string", "description": "The text."},
        _HEADER,
    ],
    "items": False,
    "minItems": 4,
}


class ItemTypeSerializer(serializers.Serializer[Any]):
    type = serializers.CharField(
        required=False, help_text="Only the schema of this type, for instance `run.finished`."
    )


class StreamSchemaView(Resource):
    """The JSON Schemas (2020-12) of all items of native streams."""

    rights: ClassVar = {"get": Right.PUBLIC}

    @extend_schema(parameters=[ItemTypeSerializer], responses={200: OpenApiTypes.OBJECT})
    def get(self, _: Request) -> Response:
        kind = self.query(ItemTypeSerializer).get("type")
        schema = stream_schema() if kind is None else item_schema(kind)
        if schema is None:
            raise StreamItemUnknown
        return Response(schema, content_type="application/schema+json")


@cache
def stream_schema() -> dict[str, Any]:
    """Returns one document: any item of a native stream, and the schema of each under its type.

    An item is an event, an item that is not in the log, a delta, or the reply to a command.
    """
    definitions = _definitions()
    items = {
        **{kind.value: _event(kind.value, shape) for kind, shape in events.EVENTS.items()},
        **{
            kind.value: _stream_only(kind.value, shape)
            for kind, shape in events.STREAM_ITEMS.items()
        },
        REPLY: {"$ref": _DEFS + _name(payloads.CommandReply.__name__)},
        DELTA: _DELTA,
        DELTAS: {
            "type": "array",
            "description": "Deltas, as server-sent events carry them.",
            "items": {"$ref": _DEFS + DELTA},
        },
    }
    return {
        "$schema": DIALECT,
        "title": "Items of native streams",
        "description": "Each item of a native stream. `$defs` has one schema for each type of event"
        " and of other item, and one for each object in them. Objects may get more fields.",
        "anyOf": [{"$ref": _DEFS + name} for name in items],
        "$defs": {**items, **definitions},
    }


def item_schema(kind: str) -> dict[str, Any] | None:
    """Returns the schema of one type of item, with what it refers to; ``None`` if unknown."""
    whole = stream_schema()
    if {"$ref": _DEFS + kind} not in whole["anyOf"]:
        return None
    needed: dict[str, Any] = {}
    _collect(whole["$defs"][kind], whole["$defs"], needed)
    rest = {"$defs": needed} if needed else {}
    return {"$schema": DIALECT, **whole["$defs"][kind], **rest}


def _collect(schema: Any, known: dict[str, Any], needed: dict[str, Any]) -> None:
    if isinstance(schema, dict):
        name = str(schema.get("$ref", "")).removeprefix(_DEFS)
        if name and name not in needed:
            needed[name] = known[name]
            _collect(known[name], known, needed)
        for value in schema.values():
            _collect(value, known, needed)
    elif isinstance(schema, list):
        for value in schema:
            _collect(value, known, needed)


def _event(kind: str, shape: events.ItemShape) -> dict[str, Any]:
    return {
        "type": "object",
        "description": shape.meaning,
        "properties": {
            "number": {"type": "integer", "minimum": 1, "description": "Its number in the log."},
            "type": {"const": kind, "description": "The type of the event."},
            "data": {
                "$ref": _DEFS + _name(shape.data.__name__),
                "description": "What the item contains.",
            },
        },
        "required": ["number", "type", "data"],
    }


def _stream_only(kind: str, shape: events.ItemShape) -> dict[str, Any]:
    return {
        "type": "object",
        "description": shape.meaning,
        "properties": {
            "type": {"const": kind, "description": "The type of the item."},
            "data": {
                "$ref": _DEFS + _name(shape.data.__name__),
                "description": "What the item contains.",
            },
        },
        "required": ["type", "data"],
    }


def _definitions() -> dict[str, Any]:
    """Returns a schema for each type of the room, by its name for clients."""
    from pydantic import ConfigDict, TypeAdapter  # noqa: PLC0415  130 ms, only for its readers

    shapes = [
        member
        for module in (messages, objects, approvals, payloads)
        for _, member in getmembers(module, is_typeddict)
        if member.__module__ == module.__name__
    ]
    for shape in shapes:
        shape.__pydantic_config__ = ConfigDict(use_attribute_docstrings=True)
    adapters = [(shape, "serialization", TypeAdapter(shape)) for shape in shapes]
    _, made = TypeAdapter.json_schemas(adapters)  # type: ignore[arg-type]  # the mode is a literal
    definitions = made["$defs"]
    return {_name(name): _renamed(schema) for name, schema in definitions.items()}


def _name(name: str) -> str:
    return name.removesuffix(_SUFFIX)


def _renamed(schema: Any) -> Any:
    """Returns the schema with references to the names for clients, and without titles."""
    if isinstance(schema, list):
        return [_renamed(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {
        key: _renamed(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }
    if "$ref" in changed:
        changed["$ref"] = _name(changed["$ref"])
    return changed
