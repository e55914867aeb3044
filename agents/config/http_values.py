"""Validates addresses, header names and header values of HTTP requests. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit


def is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises for a port that is not a number
    except ValueError:
        return False
    return (
        parts.scheme in {"http", "https"}
        and bool(parts.hostname)
        and text.isprintable()
        and " " not in text
    )


def is_header_name(name: str) -> bool:
    return bool(name) and name.isascii() and name.replace("-", "").replace("_", "").isalnum()


def is_header_value(value: str) -> bool:
    """Whether a header may have this value: a line break would start another header."""
    return value.isascii() and (value.isprintable() or not value)
