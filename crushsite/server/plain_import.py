"""Imports Daphne without TLS, which a server on loopback never speaks.

Twisted takes OpenSSL in because it is installed: 0.15 s of every start, and
megabytes. Without it Twisted has its own plain transports.
"""

from __future__ import annotations

import importlib
import sys


def import_daphne_plain() -> None:
    """Before anything else imports Twisted; later it does nothing."""
    if "OpenSSL" in sys.modules:
        return
    sys.modules["OpenSSL"] = None  # type: ignore[assignment]  # how Python spells "not to be had"
    try:
        importlib.import_module("daphne.server")
    finally:
        del sys.modules["OpenSSL"]
