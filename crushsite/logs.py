"""Logging: one line a record, ``key=value`` for what it concerns, to standard error."""

from __future__ import annotations

import logging
import logging.config
from datetime import UTC, datetime

from typing_extensions import override

CONCERNS = ("workspace", "session", "run", "client")


class LineFormatter(logging.Formatter):
    @override
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        message = record.getMessage().replace("\n", "\\n")
        line = f"{at.replace('+00:00', 'Z')} {record.levelname.lower()} {record.name} {message}"
        for name in CONCERNS:
            value = getattr(record, name, None)
            if value not in (None, ""):
                line += f" {name}={value}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def set_up_logging(level: str) -> None:
    """For a process that stays. Third parties speak from warnings on."""
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
