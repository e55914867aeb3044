"""Finds an Ollama server and the models it has. Blocks for 0.3 s at most, and for
what resolving a name takes, where one is given.

Calls only the loopback address, unless ``OLLAMA_HOST`` names another one. The answer is
cached for 30 s in the process. Proxies are never used, redirects never
followed.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from agents.config.expand import Lookup
from agents.config.settings import ModelInfo

DEFAULT_PORT = 11434
WAIT_SECONDS = 0.15
KEEP_SECONDS = 30.0
_ANSWER_LIMIT = 1 << 20
_MODELS_LIMIT = 200
# The answer does not hold the window, and Ollama truncates prompts silently at its own
# setting: it is better to summarise early.
_WINDOW = 32_768


@dataclass(frozen=True, slots=True)
class OllamaAddress:
    scheme: str
    host: str
    port: int

    @property
    def base_url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}/v1"


def ollama_address(lookup: Lookup) -> OllamaAddress:
    """The address in ``OLLAMA_HOST``, in any of its forms, else the loopback default."""
    given = (lookup("OLLAMA_HOST") or "").strip()
    default = OllamaAddress("http", "127.0.0.1", DEFAULT_PORT)
    if not given:
        return default
    try:
        parts = urlsplit(given if "://" in given else f"http://{given}")
        host, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError:
        return default
    if parts.scheme not in {"http", "https"} or not host.isprintable() or " " in host:
        return default
    if host in {"0.0.0.0", "::"}:  # noqa: S104  an address to listen on, not to call
        host = "127.0.0.1"
    return OllamaAddress(parts.scheme, host, port or DEFAULT_PORT)


class OllamaFinder:
    """Caches the last answer of each address."""

    def __init__(self, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self._wait_seconds = wait_seconds
        self._lock = threading.Lock()
        self._answers: dict[OllamaAddress, tuple[float, tuple[ModelInfo, ...] | None]] = {}

    def models(self, address: OllamaAddress) -> tuple[ModelInfo, ...] | None:
        """Its models, or None when nothing answers there. Raises nothing."""
        # One thread calls; the others wait for its result.
        with self._lock:
            now = time.monotonic()
            asked_at, models = self._answers.get(address, (-KEEP_SECONDS, None))
            if now - asked_at < KEEP_SECONDS:
                return models
            models = _ask(address, self._wait_seconds)
            if len(self._answers) >= 16:  # addresses come from clients
                self._answers.clear()
            self._answers[address] = (now, models)
            return models


finder = OllamaFinder()


def _ask(address: OllamaAddress, wait_seconds: float) -> tuple[ModelInfo, ...] | None:
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.host, address.port, timeout=wait_seconds)
    try:
        connection.connect()
        with _cut_after(connection.sock, wait_seconds):
            connection.request("GET", "/api/tags")
            response = connection.getresponse()
            body = response.read(_ANSWER_LIMIT + 1)
        if response.status != 200 or len(body) > _ANSWER_LIMIT:
            return None
        return _models(json.loads(body))
    except (OSError, ValueError, RecursionError, http.client.HTTPException):
        return None
    finally:
        connection.close()


@contextmanager
def _cut_after(sock: socket.socket, seconds: float) -> Iterator[None]:
    """Limits the whole call: a socket's timeout covers one read, and a server may send slowly."""

    def cut() -> None:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _models(answer: object) -> tuple[ModelInfo, ...] | None:
    listed = answer.get("models") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        return None
    names = [entry.get("name") for entry in listed if isinstance(entry, dict)]
    return tuple(
        ModelInfo(name, name, context_window=_WINDOW)
        for name in dict.fromkeys(names)
        if isinstance(name, str) and _is_usable(name)
    )[:_MODELS_LIMIT]


def _is_usable(name: str) -> bool:
    # The list includes embedding models, which cannot hold a conversation.
    return 0 < len(name) <= 200 and name.isprintable() and "embed" not in name
