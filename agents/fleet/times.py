"""Times of the fleet's files: whole nanoseconds since 1970 within, RFC 3339 in UTC outside.

Nanoseconds, because the other side writes nine digits and names files by them.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta, timezone

NANOS = 1_000_000_000

_SHAPE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?"
    r"(?:([Zz])|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def now_nanos() -> int:
    return time.time_ns()


def parse_rfc3339(text: str) -> int:
    """Raises ``ValueError``."""
    match = _SHAPE.fullmatch(text) if len(text) <= 64 else None
    if match is None:
        raise ValueError("This is no RFC 3339 time.")
    *whole, fraction, _zulu, sign, hours, minutes = match.groups()
    zone = UTC
    if sign is not None:
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        zone = timezone(-offset if sign == "-" else offset)
    try:
        year, month, day, hour, minute, second = map(int, whole)
        moment = datetime(year, month, day, hour, minute, second, tzinfo=zone)
        seconds = (moment - _EPOCH) // _SECOND
    except OverflowError as error:
        raise ValueError("This time is out of range.") from error
    return seconds * NANOS + int((fraction or "").ljust(9, "0") or 0)


def as_rfc3339(nanos: int) -> str:
    """With 0, 3, 6 or 9 digits: the fewest that lose nothing."""
    seconds, fraction = divmod(nanos, NANOS)
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    if fraction == 0:
        return f"{text.zfill(19)}Z"
    digits = f"{fraction:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text.zfill(19)}.{digits}Z"
