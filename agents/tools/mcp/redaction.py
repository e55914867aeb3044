"""What people are told of a failure: one sentence, bounded, without what the server was given."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agents.config.mask import (
    Scrubber,
    is_secret_name,
    masked_within,
    secrets_in_arguments,
)
from agents.config.settings import McpSettings
from agents.tools.mcp.limits import MAX_ERROR_CHARS

_OPAQUE_CHARS = 16
_SPACE = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class Telling:
    _scrubber: Scrubber = field(repr=False)

    @classmethod
    def of(cls, settings: McpSettings, env: Mapping[str, str], *, path: str) -> Telling:
        public = (path, env.get("HOME", ""), env.get("PATH", ""))
        return cls(Scrubber.of(_secrets(settings, env), public=public))

    def sentence(self, text: str) -> str:
        """Lines and printable characters alone; the end of a long text says most."""
        shown = "".join(
            letter if letter.isprintable() or letter == "\n" else " " for letter in text.strip()
        )
        scrubbed = masked_within(str(self._scrubber.scrub(shown)))
        if len(scrubbed) <= MAX_ERROR_CHARS:
            return scrubbed
        head = MAX_ERROR_CHARS // 4
        return f"{scrubbed[:head]} … {scrubbed[head - MAX_ERROR_CHARS :]}"


def _secrets(settings: McpSettings, env: Mapping[str, str]) -> Iterable[str]:
    yield from settings.env.values()
    for value in settings.headers.values():
        yield value
        yield value.rpartition(" ")[2]  # without "Bearer"
    yield settings.oauth_client_secret
    yield from secrets_in_arguments((*settings.args, settings.url))
    yield from (value for name, value in env.items() if is_secret_name(name) or _is_opaque(value))


def _is_opaque(value: str) -> bool:
    """Long, one word, no folder: a secret, whatever its variable is called."""
    return len(value) >= _OPAQUE_CHARS and "/" not in value and not _SPACE.search(value)
