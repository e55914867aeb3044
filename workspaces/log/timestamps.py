"""Timestamps: whole milliseconds since 1970, UTC, as every row holds them."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def as_seconds(moment: int) -> int:
    """Converts a timestamp to the seconds of the ``/v1`` wire."""
    return moment // 1000


def as_rfc3339(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat().replace("+00:00", "Z")


def for_people(moment: int) -> str:
    """A moment as people read it in a table, to the second."""
    return f"{as_rfc3339(moment)[:19]}Z".replace("T", " ")
