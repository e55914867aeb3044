"""Parses JSON with orjson for REST framework. The settings refer to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import orjson
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser
from typing_extensions import override

from workspaces.bounded_json import TooManyValues, parse_bounded


class OrjsonParser(BaseParser):
    """Parses every body as JSON: some clients send ``text/plain`` or no content type."""

    media_type = "*/*"

    @override
    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        return parse_body(stream.read())


def parse_body(body: bytes) -> Any:
    """Also rejects invalid UTF-8, lone surrogates and values nested too deeply."""
    try:
        return parse_bounded(body)
    except TooManyValues as error:
        raise ParseError(f"failed to decode request: {error}") from None
    except orjson.JSONDecodeError:
        raise ParseError("failed to decode request") from None
