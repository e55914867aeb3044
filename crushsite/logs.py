"""Logging: one line a record, ``key=value`` for what it concerns, to standard error."""

from __future__ import annotations

import logging
import logging.config
from datetime import UTC, datetime

from django.core.exceptions import ImproperlyConfigured
from typing_extensions import override

CONCERNS = ("workspace", "session", "run", "client")
VALUE_CHARS = 200
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class LineFormatter(logging.Formatter):
    @override
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        message = _printable(record.getMessage())
        line = f"{at.replace('+00:00', 'Z')} {record.levelname.lower()} {record.name} {message}"
        for name in CONCERNS:
            value = getattr(record, name, None)
            if value not in (None, ""):
                line += f" {name}={_value(str(value))}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _value(text: str) -> str:
    """One word: clients choose some of the ids."""
    text = _printable(text[:VALUE_CHARS])
    if any(mark in text for mark in ' "='):
        text = '"' + text.replace('"', "'") + '"'
    return text


def _printable(text: str) -> str:
    """Whoever chose a name or an id must not write lines of their own, nor colours."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def set_up_logging(level: str) -> None:
    """For a process that stays. Third parties speak from warnings on.

    Raises ``ImproperlyConfigured``.
    """
    if level not in LEVELS:
        raise ImproperlyConfigured(
            f"CRUSH_LOG_LEVEL must be one of {', '.join(LEVELS)}, not {level!r}."
        )
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"line": {"()": LineFormatter}},
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
            "root": {"handlers": ["stderr"], "level": "WARNING"},
            "loggers": {
                name: {"level": level}
                for name in ("crushsite", "agents", "permissions", "workspaces")
            },
        }
    )
