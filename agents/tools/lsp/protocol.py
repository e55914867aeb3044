"""The protocol's types, of ``lsprotocol``, loaded when the first server starts.

Importing them takes a third of a second, so it happens in a thread and never
at the server's start.
"""

from __future__ import annotations

import asyncio
import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any


class Unfit(Exception):
    """What a server sent does not have the shape that the protocol gives it."""


@dataclass(frozen=True, slots=True)
class Protocol:
    types: Any  # the module ``lsprotocol.types``
    converter: Any

    def plain(self, value: Any) -> Any:
        """As it goes over the wire."""
        return self.converter.unstructure(value)

    def result(self, method: str, raw: Any) -> Any:
        """A typed result of a request. Raises ``Unfit``."""
        response = self.types.METHOD_TO_TYPES[method][1]
        whole = self._typed({"jsonrpc": "2.0", "id": 0, "result": raw}, response)
        return whole.result

    def params(self, method: str, raw: Any) -> Any:
        """Typed parameters of a notification. Raises ``Unfit``."""
        return self._typed(raw, self.types.METHOD_TO_TYPES[method][2])

    def _typed(self, raw: Any, kind: Any) -> Any:
        try:
            return self.converter.structure(raw, kind)
        except Exception as error:  # the library raises whatever the odd value makes it raise
            raise Unfit from error


async def load_protocol() -> Protocol:
    return await asyncio.to_thread(_load)


@cache
def _load() -> Protocol:
    types = importlib.import_module("lsprotocol.types")
    converters = importlib.import_module("lsprotocol.converters")
    return Protocol(types, converters.get_converter())
