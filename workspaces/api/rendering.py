"""JSON by orjson, as REST framework's renderer and parser. The settings name both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import orjson
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from typing_extensions import override

from workspaces.bounded_json import TooManyValues, parse_bounded


class OrjsonRenderer(BaseRenderer):
    media_type = "application/json"
    format = "json"
    charset = None  # JSON is UTF-8; its media type has no such parameter
    render_style = "binary"

    @override
    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        return b"" if data is None else orjson.dumps(data)


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
