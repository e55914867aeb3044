"""Makes a server's schema of a tool's arguments safe, and checks arguments against it.

Pure, except for the validator, which is loaded with the protocol's package. A schema
can be written so that a check never ends. The check therefore counts its steps; beyond
the limit it stops, and the server must check the arguments itself.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from typing import Any

import orjson

from agents.tools.mcp.limits import MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH

_STEPS = 20_000
_FAULT_CHARS = 300
# With these a schema could make a single step take any time.
_UNCHECKED = frozenset({"pattern", "patternProperties", "format", "uniqueItems"})
_PROSE = frozenset({"description", "title", "examples", "default", "$comment"})
_ANY: Mapping[str, Any] = {"type": "object", "properties": {}}


def safe_schema(given: object) -> Mapping[str, Any]:
    """Returns a schema that providers accept: an object with properties, of limited size."""
    if not isinstance(given, Mapping) or not _is_shallow(given, MAX_SCHEMA_DEPTH):
        return _ANY
    schema = {key: value for key, value in given.items() if key not in {"$schema", "$id"}}
    schema["type"] = "object"
    if not isinstance(schema.get("properties"), Mapping):
        schema["properties"] = {}
    if not isinstance(schema.get("required", []), list):
        del schema["required"]
    for candidate in (schema, _without_prose(schema)):
        if _size(candidate) <= MAX_SCHEMA_BYTES:
            found: Mapping[str, Any] = candidate
            return found
    return _ANY


def fault_in(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Returns the first error in a call's arguments with its field; empty if none is known."""
    token = _left.set([_STEPS])
    try:
        # An empty registry: no reference is ever fetched.
        checker = _checker()(schema, registry=importlib.import_module("referencing").Registry())
        error = next(checker.iter_errors(arguments), None)
    except Exception:  # noqa: BLE001  a broken or endless schema: the server checks
        return ""
    finally:
        _left.reset(token)
    if error is None:
        return ""
    where = ""
    for step in error.absolute_path:
        where += f"[{step}]" if isinstance(step, int) else f".{step}" if where else str(step)
    message = str(error.message)
    if len(message) > _FAULT_CHARS:
        message = f"{message[:_FAULT_CHARS]}…"
    return f"{where[:_FAULT_CHARS]}: {message}" if where else message


class _Endless(Exception):
    """The check needed more steps than any reasonable schema."""


_left: ContextVar[list[int]] = ContextVar("steps left of the check")


@cache
def _checker() -> Any:
    """Returns the package's validator with a step counter; the first call blocks briefly."""
    validators: Any = importlib.import_module("jsonschema.validators")
    base = validators.Draft202012Validator
    checks = {
        name: _counted(check) for name, check in base.VALIDATORS.items() if name not in _UNCHECKED
    }
    return validators.create(
        meta_schema=base.META_SCHEMA, validators=checks, type_checker=base.TYPE_CHECKER
    )


def _counted(check: Any) -> Any:
    def step(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        left = _left.get()
        left[0] -= 1
        if left[0] < 0:
            raise _Endless
        return check(validator, value, instance, schema)

    return step


def prepare() -> None:
    """Creates the validator before the first check. It blocks briefly: call it in a thread."""
    _checker()


def _is_shallow(value: object, depth: int) -> bool:
    if depth < 0:
        return False
    if isinstance(value, Mapping):
        return all(_is_shallow(item, depth - 1) for item in value.values())
    if isinstance(value, list):
        return all(_is_shallow(item, depth - 1) for item in value)
    return True


def _size(schema: Mapping[str, Any]) -> int:
    try:
        return len(orjson.dumps(schema))
    except TypeError:  # a lone surrogate, or a number that JSON does not have
        return MAX_SCHEMA_BYTES + 1


def _without_prose(value: Any) -> Any:
    """Removes texts such as ``title``, but keeps properties of that name."""
    if isinstance(value, Mapping):
        return {
            key: _without_prose(item)
            for key, item in value.items()
            if key not in _PROSE or isinstance(item, Mapping)
        }
    if isinstance(value, list):
        return [_without_prose(item) for item in value]
    return value
