"""Validates a request's body against a form; reports the first error in one sentence."""

from __future__ import annotations

from functools import cache
from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ParseError, ValidationError
from rest_framework.settings import api_settings

from workspaces.api.fields import MESSAGES
from workspaces.log.errors import BadField


class Form(serializers.Serializer[Any]):
    """The fields of a body. Unknown fields are ignored: clients send back whole objects."""

    default_error_messages = MESSAGES | {"invalid": "must be an object"}


@cache
def _checker(form: type[Form]) -> Form:
    # One instance for all requests: creating a serializer copies each of its fields, and
    # validation does not change it.
    return form()


def checked(form: type[Form], data: object) -> dict[str, Any]:
    """Returns the form's fields. Raises ``BadField``, or ``ParseError`` if not an object."""
    if not isinstance(data, dict):
        raise ParseError("failed to decode request")
    try:
        values: dict[str, Any] = _checker(form).run_validation(data)
    except ValidationError as error:
        raise BadField(sentence_of(error.detail)) from None
    return values


def sentence_of(detail: Any, name: str = "") -> str:
    """Returns the framework's first error as a sentence, with the field's full name."""
    if isinstance(detail, dict):
        key, below = next(iter(detail.items()))
        if key == api_settings.NON_FIELD_ERRORS_KEY:  # of the object as a whole
            return sentence_of(below, name)
        inner = f"[{key}]" if isinstance(key, int) else f".{key}"
        return sentence_of(below, f"{name}{inner}".removeprefix("."))
    if isinstance(detail, list):
        index, below = next((i, below) for i, below in enumerate(detail) if below)
        if isinstance(below, dict):
            return sentence_of(below, f"{name}[{index}]")
        return sentence_of(below, name)
    if getattr(detail, "code", "") == "required":
        return f"{name} {detail}"
    return f"{name}: {detail}" if name else str(detail)
