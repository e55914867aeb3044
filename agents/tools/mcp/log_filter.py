"""Keeps the protocol's package from logging what servers send, and addresses that hold secrets.

It tells of every failure with a stack and often with the message itself, also
through the root logger. What went wrong is told by ``failures`` instead.
"""

from __future__ import annotations

import logging

_SILENT = ("mcp", "client")  # the package's own names for its loggers
_WARNING = ("httpx2", "httpcore2")


def silence() -> None:
    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    for name in _WARNING:
        logging.getLogger(name).setLevel(logging.WARNING)
    root = logging.getLogger()
    if _is_ours not in root.filters:
        root.addFilter(_is_ours)  # of what is logged to the root itself, not to loggers below


def _is_ours(record: logging.LogRecord) -> bool:
    return "/mcp/shared/" not in record.pathname
