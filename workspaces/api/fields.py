"""Strict fields for request bodies: nothing is coerced, and every size is bounded.

REST framework's own fields convert numbers to text and "yes" to true; here the client gets an
error.
"""

from __future__ import annotations

import binascii
from collections.abc import Collection, Iterable, Sized
from itertools import chain
from typing import Any, TypeVar

from rest_framework import serializers
from typing_extensions import override

Several = TypeVar("Several", bound=Collection[str])

MESSAGES: dict[str, Any] = {"required": "is required", "null": "must not be null"}


class PlainText(serializers.Field[str, Any, str, Any]):
    default_error_messages = MESSAGES | {
        "invalid": "must be a string",
        "blank": "must not be empty",
        "long": "must have at most {limit} characters",
        "nul": "must not hold a NUL character",
    }

    def __init__(self, *, limit: int, allow_blank: bool = False, **options: Any) -> None:
        self.limit = limit
        self.allow_blank = allow_blank
        super().__init__(**options)

    @override
    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        if not data and not self.allow_blank:
            self.fail("blank")
        if len(data) > self.limit:
            self.fail("long", limit=self.limit)
        if "\0" in data:
            self.fail("nul")
        return data

    @override
    def to_representation(self, value: str) -> str:
        return value


class Flag(serializers.Field[bool, Any, bool, Any]):
    default_error_messages = MESSAGES | {"invalid": "must be true or false"}

    @override
    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid")
        return data

    @override
    def to_representation(self, value: bool) -> bool:
        return value


class Whole(serializers.Field[int, Any, int, Any]):
    """A whole number that fits into a column."""

    default_error_messages = MESSAGES | {
        "invalid": "must be a whole number",
        "range": "must be from {least} to {most}",
    }

    def __init__(self, *, least: int = 0, most: int = 2**53, **options: Any) -> None:
        self.least = least
        self.most = most
        super().__init__(**options)

    @override
    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        if not self.least <= data <= self.most:
            self.fail("range", least=self.least, most=self.most)
        return data

    @override
    def to_representation(self, value: int) -> int:
        return value


class JsonObject(serializers.Field[dict[str, Any], Any, dict[str, Any], Any]):
    """Any object; what is in it is for the caller to check."""

    default_error_messages = MESSAGES | {"invalid": "must be an object"}

    @override
    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            self.fail("invalid")
        return dict(data)

    @override
    def to_representation(self, value: dict[str, Any]) -> dict[str, Any]:
        return value


class _Bounded(serializers.Field[Several, Any, Several, Any]):
    """Several texts, counted before any of them is validated."""

    default_error_messages = MESSAGES | {
        "many": "must have at most {count} items",
        "long": "must have items of at most {limit} characters",
        "nul": "must not hold a NUL character",
    }

    def __init__(self, *, count: int, limit: int, **options: Any) -> None:
        self.count = count
        self.limit = limit
        super().__init__(**options)

    def check(self, given: Sized, texts: Iterable[Any]) -> None:
        """Validates the number of items and each of ``texts``, the texts among them."""
        if len(given) > self.count:
            self.fail("many", count=self.count)
        for text in texts:
            if not isinstance(text, str):
                self.fail("invalid")
            if len(text) > self.limit:
                self.fail("long", limit=self.limit)
            if "\0" in text:
                self.fail("nul")

    @override
    def to_representation(self, value: Several) -> Several:
        return value


class Texts(_Bounded[list[str]]):
    default_error_messages = {"invalid": "must be a list of strings"}

    @override
    def to_internal_value(self, data: Any) -> list[str]:
        if not isinstance(data, list):
            self.fail("invalid")
        self.check(data, data)
        return list(data)


class TextMap(_Bounded[dict[str, str]]):
    default_error_messages = {"invalid": "must be an object of strings"}

    @override
    def to_internal_value(self, data: Any) -> dict[str, str]:
        if not isinstance(data, dict):
            self.fail("invalid")
        self.check(data, chain(data.keys(), data.values()))
        return dict(data)


class Base64Text(PlainText):
    default_error_messages = {"base64": "must be base64"}

    @override
    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data)
        try:
            binascii.a2b_base64(text, strict_mode=True)
        except ValueError:
            self.fail("base64")
        return text
