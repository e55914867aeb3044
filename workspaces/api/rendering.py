"""JSON by orjson, as REST framework's parser. The settings name it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import orjson
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser
from typing_extensions import override

from workspaces.bounded_json import TooManyValues, parse_bounded


class OrjsonParser(BaseParser):
    """Reads every body as JSON: some clients send it as text, or do not say what it is."""

    media_type = "*/*"

    @override
    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Refuses broken UTF-8, lone surrogates, and what is nested too deep, with the rest."""
        try:
            return parse_bounded(stream.read())
        except TooManyValues as error:
            raise ParseError(f"failed to decode request: {error}") from None
        except orjson.JSONDecodeError:
            raise ParseError("failed to decode request") from None
