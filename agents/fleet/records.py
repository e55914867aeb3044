"""The records of reachable children: a small file each in the fabric folder, with a lease.

A record is valid until its lease expires; the child renews it, and any process may
remove expired ones. An unreadable record counts as absent. The functions block: call
them in a thread.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

from agents.fleet.documents import (
    BadDocument,
    is_safe_name,
    read_object,
    read_regular,
    remove_old_temporaries,
    sync_folder,
    visible_json,
    write_atomically,
    written,
)

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
    """Returns the nanoseconds since 1970. Raises ``ValueError``."""
    match = _SHAPE.fullmatch(text) if len(text) <= 64 else None
    if match is None:
        raise ValueError("The time is not in the format of RFC 3339.")
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
        raise ValueError("The time is out of range.") from error
    return seconds * NANOS + int((fraction or "").ljust(9, "0") or 0)


def as_rfc3339(nanos: int) -> str:
    """Formats a time with 0, 3, 6 or 9 decimals: the fewest that are exact."""
    seconds, fraction = divmod(nanos, NANOS)
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    if fraction == 0:
        return f"{text.zfill(19)}Z"
    digits = f"{fraction:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text.zfill(19)}.{digits}Z"


MOST_BYTES = 64 * 1024
LEASE_SECONDS = 60.0
RENEW_SECONDS = 20.0
_TEMPORARY_LIVES_SECONDS = 600.0


class BadRecord(ValueError):
    """A record that cannot be written or read."""


@dataclass(frozen=True, slots=True)
class Record:
    """Where a child is reached. Times are nanoseconds since 1970."""

    agent_id: str
    role: str
    endpoint: str
    pid: int
    started_at: int
    lease_expires_at: int
    labels: tuple[str, ...] = ()
    version: str | None = None

    def is_live(self, now: int | None = None) -> bool:
        return self.lease_expires_at > (now_nanos() if now is None else now)


def new_record(
    agent_id: str,
    *,
    role: str,
    endpoint: str,
    version: str | None = None,
    lease_seconds: float = LEASE_SECONDS,
) -> Record:
    """Returns a record of this process with a lease from now."""
    now = now_nanos()
    expires = now + int(lease_seconds * NANOS)
    return Record(agent_id, role, endpoint, os.getpid(), now, expires, version=version)


def publish(folder: Path, record: Record) -> None:
    """Writes the record. Raises ``OSError``, and ``BadRecord`` if the id is not a file name."""
    path = _path(folder, record.agent_id)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(path, encode(record))


def renew(folder: Path, record: Record, lease_seconds: float = LEASE_SECONDS) -> Record:
    """Writes the record with a new lease, even if another process has removed it."""
    renewed = replace(record, lease_expires_at=now_nanos() + int(lease_seconds * NANOS))
    publish(folder, renewed)
    return renewed


def withdraw(folder: Path, agent_id: str) -> None:
    """Removes the record. Callable twice. Raises ``BadRecord``, ``OSError``."""
    _path(folder, agent_id).unlink(missing_ok=True)


def find_record(folder: Path, agent_id: str, now: int | None = None) -> Record | None:
    """Returns the live record of that id, or None."""
    record = _read(_path(folder, agent_id))
    return record if record is not None and record.is_live(now) else None


def live_records(folder: Path, now: int | None = None) -> list[Record]:
    """Returns the live records, sorted by id; none if the folder does not exist."""
    moment = now_nanos() if now is None else now
    read = (_read(folder / name) for name in visible_json(folder))
    live = [record for record in read if record is not None and record.is_live(moment)]
    return sorted(live, key=lambda record: record.agent_id)


def collect_expired(folder: Path, now: int | None = None) -> int:
    """Deletes expired and unreadable records; returns their number."""
    moment = now_nanos() if now is None else now
    collected = 0
    for name in visible_json(folder):
        record = _read(folder / name)
        if record is None or not record.is_live(moment):
            collected += _collect(folder, name, moment)
    remove_old_temporaries(folder, older_than_seconds=_TEMPORARY_LIVES_SECONDS)
    return collected


def _collect(folder: Path, name: str, now: int) -> bool:
    """Renames the file before it checks again: its child may renew it in between."""
    aside = folder / f".{name}.collecting.{uuid.uuid4()}"
    try:
        if (folder / name).is_dir() and not (folder / name).is_symlink():
            return False
        (folder / name).rename(aside)
    except OSError:
        return False
    record = _read(aside, named=name)
    was_renewed = record is not None and record.is_live(now)
    if was_renewed:
        with contextlib.suppress(OSError):  # a newer record exists
            (folder / name).hardlink_to(aside)
    with contextlib.suppress(OSError):
        aside.unlink()
        sync_folder(folder)
    return not was_renewed


def encode(record: Record) -> bytes:
    value: dict[str, object] = {
        "agent_id": record.agent_id,
        "role": record.role,
        "labels": list(record.labels),
        "endpoint": record.endpoint,
        "pid": record.pid,
    }
    if record.version is not None:
        value["version"] = record.version
    value["started_at"] = as_rfc3339(record.started_at)
    value["lease_expires_at"] = as_rfc3339(record.lease_expires_at)
    return written(value, pretty=True)


def decode(data: bytes) -> Record:
    """Parses a record. Raises ``BadRecord``."""
    try:
        fields = read_object(data, what="The record", most_bytes=MOST_BYTES)
        return Record(
            agent_id=fields.text("agent_id"),
            role=fields.text("role"),
            endpoint=fields.text("endpoint"),
            pid=fields.whole("pid"),
            started_at=parse_rfc3339(fields.text("started_at")),
            lease_expires_at=parse_rfc3339(fields.text("lease_expires_at")),
            labels=fields.texts("labels"),
            version=fields.text_or_none("version"),
        )
    except (BadDocument, ValueError) as error:
        raise BadRecord(str(error)) from error


def _read(path: Path, named: str | None = None) -> Record | None:
    data = read_regular(path, most_bytes=MOST_BYTES)
    if data is None:
        return None
    try:
        record = decode(data)
    except BadRecord:
        return None
    # A record under another id's file name would stand for that id.
    return record if f"{record.agent_id}.json" == (named or path.name) else None


def _path(folder: Path, agent_id: str) -> Path:
    if not is_safe_name(agent_id):
        raise BadRecord("The id of an agent must be usable as a file name.")
    return folder / f"{agent_id}.json"
