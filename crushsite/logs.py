"""Logging to standard error: one line per record, with the ids it concerns, as text or as JSON.

Also logs committed events: workspaces that open and close, runs that start and end. Each such
line is written once, and contains no prompt, text or path.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import logging.config
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from django.core.exceptions import ImproperlyConfigured
from typing_extensions import override

from workspaces.log.errors import DatabaseLocked, DatabaseUnreachable, StorageFull
from workspaces.log.failures import DatabaseFailure, failure_of
from workspaces.log.log_throttle import LogThrottle
from workspaces.log.outage import one_line, outage
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import Kind

# A run has the number of its row, and the id that its client gave it.
CONCERNS = ("workspace", "session", "run", "run_id", "client")
VALUE_CHARS = 200
FORMATS = ("text", "json")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


_EXHAUSTED = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)


class OutageFilter(logging.Filter):
    """Reduces outages to one line a second without a stack trace, wherever they are logged: of the
    database or Redis, a full disk, or too few file descriptors."""

    def __init__(self, *, database: LogThrottle | None = None) -> None:
        super().__init__()
        # Shared, so that the lines of the writer and the readers count as well.
        self._database = database if database is not None else outage.throttle
        self._others = LogThrottle()

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return True
        if _is_outage(error):
            admitted = self._database.admit("outage")
        elif type(error).__module__.startswith("redis."):
            admitted = self._others.admit("redis")
        elif isinstance(error, OSError) and error.errno in _EXHAUSTED:
            admitted = self._others.admit(error.errno)
        else:
            return True
        record.msg = f"{record.getMessage()}: {one_line(error)}"
        record.args, record.exc_info, record.exc_text = (), None, None
        return admitted is not None


def _is_outage(error: BaseException) -> bool:
    is_refusal = isinstance(error, DatabaseUnreachable | DatabaseLocked | StorageFull)
    return is_refusal or failure_of(error) is not DatabaseFailure.OTHER


class LineFormatter(logging.Formatter):
    @override
    def format(self, record: logging.LogRecord) -> str:
        try:
            return self._line(record)
        except Exception as error:  # noqa: BLE001  even then the record must be noticed
            # For example: no file descriptor is left to read the source of a stack trace.
            return self._unformatted(record, error)

    def _unformatted(self, record: logging.LogRecord, error: Exception) -> str:
        return (
            f"{record.levelname.lower()} {record.name} {record.msg!r:.200}"
            f" (not formatted: {type(error).__name__})"
        )

    def _line(self, record: logging.LogRecord) -> str:
        message = _printable(record.getMessage())
        line = f"{_moment(record)} {record.levelname.lower()} {record.name} {message}"
        for name, value in _concerns(record):
            line += f" {name}={_value(str(value))}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(LineFormatter):
    """Formats a record as one line of JSON, with its stack trace in a field."""

    @override
    def _line(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: str(value)[:VALUE_CHARS] for name, value in _concerns(record)},
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        # In ASCII: control characters and broken text are escaped.
        return json.dumps(fields)

    @override
    def _unformatted(self, record: logging.LogRecord, error: Exception) -> str:
        text = super()._unformatted(record, error)
        return json.dumps({"level": record.levelname.lower(), "message": text})


def _moment(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return at.replace("+00:00", "Z")


def _concerns(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    for name in CONCERNS:
        value = getattr(record, name, None)
        if value not in (None, ""):
            yield name, value


def _value(text: str) -> str:
    """Formats a value as one word: clients choose some of the ids."""
    text = _printable(text[:VALUE_CHARS])
    if any(mark in text for mark in ' "='):
        text = '"' + text.replace('"', "'") + '"'
    return text


def _printable(text: str) -> str:
    """Escapes control characters: a name or an id must not add lines or colours."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def set_up_logging(level: str, *, form: str = FORMATS[0]) -> None:
    """Sets up logging for a long-lived process. Libraries log warnings and errors only.

    ``form``: one of ``FORMATS``. Raises ``ImproperlyConfigured``.
    """
    if level not in LEVELS:
        raise ImproperlyConfigured(
            f"CRUSH_LOG_LEVEL must be one of {', '.join(LEVELS)}, not {level!r}."
        )
    logging.raiseExceptions = False  # on a full disk, a failed write to the log is ignored
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"text": {"()": LineFormatter}, "json": {"()": JsonFormatter}},
            "filters": {"outage": {"()": OutageFilter}},
            "handlers": {
                "stderr": {
                    "class": "logging.StreamHandler",
                    "formatter": form,
                    "filters": ["outage"],
                }
            },
            "root": {"handlers": ["stderr"], "level": "WARNING"},
            "loggers": {
                name: {"level": level}
                for name in (
                    "crushsite",
                    "agents",
                    "notifications",
                    "people",
                    "permissions",
                    "workspaces",
                )
            }
            # A refused request is the client's to correct.
            | {"django.request": {"level": "ERROR"}},
        }
    )


logger = logging.getLogger(__name__)

Publish: TypeAlias = Callable[[Sequence[RecordedEvent]], None]

_LIFECYCLE: Mapping[str, str] = {
    Kind.WORKSPACE_OPENED: "workspace opened",
    Kind.WORKSPACE_CLOSED: "workspace closed",
    Kind.RUN_STARTED: "run started",
    Kind.RUN_PARKED: "run waits for an answer",
    Kind.RUN_RESUMED: "run goes on",
    Kind.RUN_FINISHED: "run finished",
}


def logging_lifecycle(publish: Publish) -> Publish:
    """Wraps ``publish``: publishes first and then logs, so that nothing waits for the log."""

    def publish_and_log(recorded: Sequence[RecordedEvent]) -> None:
        publish(recorded)
        if any(event.kind in _LIFECYCLE for event in recorded):
            # In a later turn of the loop, behind the write to the readers: a line takes 0.06 ms.
            asyncio.get_running_loop().call_soon(_log_all, recorded)

    return publish_and_log


def _log_all(recorded: Sequence[RecordedEvent]) -> None:
    for event in recorded:
        what = _LIFECYCLE.get(event.kind)
        if what is not None:
            _log(what, event)


def _log(what: str, event: RecordedEvent) -> None:
    run = event.payload.get("run", {})
    outcome = run.get("outcome", "")
    logger.info(
        "%s%s",
        what,
        f": {outcome}" if outcome else "",
        extra={
            "workspace": event.workspace_id,
            "session": event.session_id,
            "run": run.get("key", ""),
            "run_id": run.get("run_id", ""),
        },
    )
