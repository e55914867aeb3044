"""Checking a request's body against a form, and saying in one sentence what is wrong."""

from __future__ import annotations

from functools import cache
from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ParseError, ValidationError
from rest_framework.settings import api_settings

from workspaces.api.fields import WORDS
from workspaces.log.errors import BadField


class Form(serializers.Serializer[Any]):
    """The fields of a body. Others are ignored: clients send whole objects back."""

    default_error_messages = WORDS | {"invalid": "must be an object"}


@cache
def _checker(form: type[Form]) -> Form:
    # One for all requests: making a serializer copies each of its fields, and checking
    # leaves nothing behind in it.
    return form()


def checked(form: type[Form], data: object) -> dict[str, Any]:
    """The form's fields. Raises ``BadField``, or ``ParseError`` for what is no object."""
    if not isinstance(data, dict):
        raise ParseError("failed to decode request")
    try:
        values: dict[str, Any] = _checker(form).run_validation(data)
    except ValidationError as error:
        raise BadField(sentence_of(error.detail)) from None
    return values


def sentence_of(detail: Any, name: str = "") -> str:
    """The first fault that the framework found, with the field's full name."""
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
