"""Strict fields for request bodies: nothing is coerced, and every size is bounded.

REST framework's own turn numbers into texts and "yes" into true; a client that
sends such a thing is mistaken, and is told so.
"""

from __future__ import annotations

import binascii
from typing import Any

from rest_framework import serializers
from typing_extensions import override

WORDS: dict[str, Any] = {"required": "is required", "null": "must not be null"}


class Text(serializers.Field[str, Any, str, Any]):
    default_error_messages = WORDS | {
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
    default_error_messages = WORDS | {"invalid": "must be true or false"}

    @override
    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid")
        return data

    @override
    def to_representation(self, value: bool) -> bool:
        return value


class Texts(serializers.Field[list[str], Any, list[str], Any]):
    """A list of texts, counted before any of them is looked at."""

    default_error_messages = WORDS | {
        "invalid": "must be a list of strings",
        "many": "must have at most {count} items",
        "long": "must have items of at most {limit} characters",
        "nul": "must not hold a NUL character",
    }

    def __init__(self, *, count: int, limit: int, **options: Any) -> None:
        self.count = count
        self.limit = limit
        super().__init__(**options)

    @override
    def to_internal_value(self, data: Any) -> list[str]:
        if not isinstance(data, list):
            self.fail("invalid")
        if len(data) > self.count:
            self.fail("many", count=self.count)
        for item in data:
            if not isinstance(item, str):
                self.fail("invalid")
            if len(item) > self.limit:
                self.fail("long", limit=self.limit)
            if "\0" in item:
                self.fail("nul")
        return list(data)

    @override
    def to_representation(self, value: list[str]) -> list[str]:
        return value


class TextMap(serializers.Field[dict[str, str], Any, dict[str, str], Any]):
    """An object of texts, counted before any of them is looked at."""

    default_error_messages = WORDS | {
        "invalid": "must be an object of strings",
        "many": "must have at most {count} items",
        "long": "must have items of at most {limit} characters",
        "nul": "must not hold a NUL character",
    }

    def __init__(self, *, count: int, limit: int, **options: Any) -> None:
        self.count = count
        self.limit = limit
        super().__init__(**options)

    @override
    def to_internal_value(self, data: Any) -> dict[str, str]:
        if not isinstance(data, dict):
            self.fail("invalid")
        if len(data) > self.count:
            self.fail("many", count=self.count)
        for text in (*data.keys(), *data.values()):
            if not isinstance(text, str):
                self.fail("invalid")
            if len(text) > self.limit:
                self.fail("long", limit=self.limit)
            if "\0" in text:
                self.fail("nul")
        return dict(data)

    @override
    def to_representation(self, value: dict[str, str]) -> dict[str, str]:
        return value


class Base64Text(Text):
    default_error_messages = {"base64": "must be base64"}

    @override
    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data)
        try:
            binascii.a2b_base64(text, strict_mode=True)
        except ValueError:
            self.fail("base64")
        return text
