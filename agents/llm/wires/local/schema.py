"""A tool's schema as the constraint under which a small model writes. Pure.

Only what must be there: each further property is one more thing to get wrong. What
the grammar might not know is left out; texts are bounded, so that a call ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

LONGEST_TEXT = 400
MOST_PROPERTIES = 8
DEPTH = 4
_SIMPLE = ("string", "integer", "number", "boolean", "null")


def constrained(schema: Mapping[str, Any], depth: int = DEPTH) -> Json:
    """An object with its required properties; with the first where none is required."""
    raw = schema.get("properties")
    properties: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
    required = schema.get("required")
    wanted = [name for name in required or () if name in properties] if required else []
    names = (wanted or [str(name) for name in properties][:1])[:MOST_PROPERTIES]
    return {
        "type": "object",
        "properties": {name: _value(properties[name], depth - 1) for name in names},
        "required": names,
        "additionalProperties": False,
    }


def _value(schema: object, depth: int) -> Json:
    if not isinstance(schema, Mapping):
        return _text()
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return {"enum": choices[:50]}
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "string")
    if kind == "object" and depth > 0:
        return constrained(schema, depth)
    if kind == "array" and depth > 0:
        items = _value(schema.get("items"), depth - 1)
        return {"type": "array", "items": items, "minItems": 1, "maxItems": 5}
    if kind in _SIMPLE and kind != "string":
        return {"type": kind}
    return _text()


def _text() -> Json:
    return {"type": "string", "maxLength": LONGEST_TEXT}
