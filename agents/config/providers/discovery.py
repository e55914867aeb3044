"""Finds providers without any configuration: by key variables, and a local Ollama.

Calls Ollama on the loopback address, unless ``OLLAMA_HOST`` names another one. A call blocks for
0.3 s at most, and for as long as the lookup of a given name takes. The answer is cached for 30 s.
Proxies are never used, and redirects never followed.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from agents.config.expand import Lookup
from agents.config.providers.catalogue import (
    KnownProvider,
    known_clouds,
    known_providers,
    known_services,
)
from agents.config.providers.kinds import COMPATIBLE_KIND
from agents.config.providers.resolve import Resolved, resolve_known
from agents.config.settings import ModelInfo

OLLAMA_ID = "ollama"
# Defaults, in this order, where no model is chosen. The key of another provider only makes that
# provider available: the key may be there for something else.
DEFAULT_PROVIDERS = ("anthropic", "openai", OLLAMA_ID)


@dataclass(frozen=True, slots=True)
class Discovery:
    """Finds providers by the workspace's variables first, then by the server's."""

    lookup: Lookup
    uses_ollama: bool
    has_local: bool = False  # the packages of the local model are installed
    prefers_local: bool = False  # use the local model rather than the offline one

    def known(self, provider_id: str) -> KnownProvider | None:
        """Returns the known provider with this id, independently of configured entries."""
        if provider_id == OLLAMA_ID:
            return self.ollama()
        return (
            known_providers().get(provider_id)
            or known_clouds().get(provider_id)
            or known_services().get(provider_id)
        )

    def known_program(self, provider_id: str) -> KnownProvider | None:
        """Returns a program on this machine, which may be chosen without an entry in a file."""
        known = self.known(provider_id)
        return (
            known if known and not known.key_variables and known.kind == COMPATIBLE_KIND else None
        )

    def service_with_key(self, provider_id: str) -> tuple[KnownProvider, str] | None:
        """Returns a hosted provider whose key is in a variable, and the variable's name."""
        known = known_services().get(provider_id)
        variables = known.key_variables if known is not None else ()
        variable = next((name for name in variables if _is_key(self.lookup(name))), "")
        return (known, variable) if known is not None and variable else None

    def found(self, *, besides: Container[str]) -> Iterator[Resolved]:
        for known in (*known_providers().values(), *known_clouds().values()):
            if known.id in besides or not known.models:
                continue
            variable = next((name for name in known.key_variables if self.lookup(name)), "")
            if variable and _is_key(self.lookup(variable)):
                yield resolve_known(known, lookup=self.lookup, variable=variable)
        if OLLAMA_ID not in besides and self.uses_ollama:
            ollama = self.ollama()
            if ollama.models:
                yield resolve_known(ollama, lookup=self.lookup, variable="")

    def ollama(self) -> KnownProvider:
        """Returns Ollama as a provider, without models if it does not answer."""
        address = ollama_address(self.lookup)
        models = finder.models(address) if self.uses_ollama else None
        return KnownProvider(
            id=OLLAMA_ID,
            name="Ollama",
            kind=COMPATIBLE_KIND,
            base_url=address.base_url,
            key_variables=(),
            large=models[0].id if models else "",
            small=models[0].id if models else "",
            models=models or (),
        )


def uses_ollama(given: Mapping[str, str], server: Mapping[str, str]) -> bool:
    """Whether Ollama may be called. Its variable is read directly, because lookups hide it."""
    name = "CRUSH_DISABLE_OLLAMA"
    return not any(env.get(name, "") not in {"", "0", "false"} for env in (given, server))


def prefers_local(server: Mapping[str, str]) -> bool:
    """Whether ``bin/serve --local-model`` started this server."""
    return server.get("CRUSH_LOCAL_MODEL", "") not in {"", "0", "false"}


def _is_key(text: str | None) -> bool:
    return (
        bool(text)
        and text is not None
        and text.isascii()
        and text.strip().isprintable()
        and bool(text.strip())
    )


DEFAULT_PORT = 11434
WAIT_SECONDS = 0.15
KEEP_SECONDS = 30.0
_ANSWER_LIMIT = 1 << 20
_MODELS_LIMIT = 200
# The answer does not contain the window, and Ollama silently truncates prompts at its own
# setting, so an early summary is better.
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
    """Returns the address in ``OLLAMA_HOST``, in any of its forms, or the loopback default."""
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
    """Caches the last answer of each address, for all workspaces of the process."""

    def __init__(self, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self._wait_seconds = wait_seconds
        self._lock = threading.Lock()
        self._answers: dict[OllamaAddress, tuple[float, tuple[ModelInfo, ...] | None]] = {}

    def models(self, address: OllamaAddress) -> tuple[ModelInfo, ...] | None:
        """Returns the models at an address, or ``None`` without an answer. Raises nothing."""
        # One thread calls; the others wait for its result.
        with self._lock:
            now = time.monotonic()
            requested_at, models = self._answers.get(address, (-KEEP_SECONDS, None))
            if now - requested_at < KEEP_SECONDS:
                return models
            models = _request_models(address, self._wait_seconds)
            if len(self._answers) >= 16:  # addresses come from clients
                self._answers.clear()
            self._answers[address] = (now, models)
            return models


finder = OllamaFinder()


def _request_models(address: OllamaAddress, wait_seconds: float) -> tuple[ModelInfo, ...] | None:
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
    # The list includes embedding models, which cannot reply to a conversation.
    return 0 < len(name) <= 200 and name.isprintable() and "embed" not in name
