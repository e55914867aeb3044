"""Which variables a configuration may see: the client's first, then the server's.

The server's own secrets are not among them, because any project's file can put
any variable into any address.
"""

from __future__ import annotations

from collections.abc import Mapping

from agents.config.expand import Lookup

_PRIVATE_NAMES = frozenset({"DATABASE_URL", "REDIS_URL", "SECRET_KEY"})
_PRIVATE_PREFIXES = ("CRUSH_", "DJANGO_")


def variables(given: Mapping[str, str], server: Mapping[str, str]) -> Lookup:
    """A variable that the client gives empty hides the server's."""

    def lookup(name: str) -> str | None:
        if name in given:
            return given[name]
        if name in _PRIVATE_NAMES or name.startswith(_PRIVATE_PREFIXES):
            return None
        return server.get(name)

    return lookup
