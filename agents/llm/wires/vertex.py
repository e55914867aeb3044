"""The wire to Anthropic's models at Google Vertex AI.

Anthropic's own events, with a Google account's token. Imported by
``agents.llm.providers`` alone, for it needs the extra ``vertex``.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import google.auth
from google.auth import transport
from google.auth.credentials import Credentials
from google.auth.exceptions import GoogleAuthError, TransportError
from google.oauth2 import service_account
from google.oauth2.credentials import Credentials as UserCredentials
from typing_extensions import override

from agents.config.settings import ProviderSettings
from agents.llm.addresses import vertex_url
from agents.llm.contract import SILENCE_SECONDS, ModelEvent, ModelRequest
from agents.llm.error_answers import error_in_stream
from agents.llm.errors import Unreachable, WrongKey
from agents.llm.headers import bearer, request_headers
from agents.llm.http_stream import Post, stream_events
from agents.llm.json_text import dump
from agents.llm.proxies import proxy_for
from agents.llm.wires.anthropic_decode import AnthropicDecoder
from agents.llm.wires.anthropic_encode import VERTEX, cloud_body

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
FILE_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
SECONDS = 20.0
ANSWER_LIMIT = 1024 * 1024


class GoogleTokens:
    def __init__(self, settings: ProviderSettings, env: Mapping[str, str]) -> None:
        self._settings = settings
        self._file = env.get(FILE_VARIABLE, "")

    async def token(self) -> str:
        """Raises ``WrongKey`` where there is no account, ``Unreachable`` without Google."""
        return await asyncio.to_thread(self._token)

    def _token(self) -> str:
        try:
            changed_at = Path(self._file).stat().st_mtime_ns if self._file else 0
            return _account(self._file, changed_at).token()
        except TransportError:
            raise Unreachable(
                f"{self._settings.name}: Google's sign-in cannot be reached."
            ) from None
        except (GoogleAuthError, OSError, ValueError) as error:
            raise WrongKey(
                f"{self._settings.name} asks for a Google Cloud account "
                f"({type(error).__name__}). Set GOOGLE_APPLICATION_CREDENTIALS to the file of "
                "one, or sign in with 'gcloud auth application-default login'."
            ) from None


class _Account:
    """Its token is asked for again when it is about to expire."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._lock = threading.Lock()

    def token(self) -> str:
        with self._lock:
            if not self._credentials.valid:
                self._credentials.refresh(_Transport())  # type: ignore[no-untyped-call]  # google-auth is half typed
            return str(self._credentials.token)


@lru_cache(maxsize=64)
def _account(file: str, changed_at: int) -> _Account:  # noqa: ARG001  a new file is a new account
    return _Account(_found(file))


def _found(file: str) -> Credentials:
    if not file or file == os.environ.get(FILE_VARIABLE):
        found, _project = google.auth.default(scopes=SCOPES)
        return found
    # A client names this file. Other kinds of accounts may run programs or ask any address.
    told = json.loads(Path(file).read_bytes()[:ANSWER_LIMIT])
    match told.get("type") if isinstance(told, dict) else None:
        case "service_account":
            maker = service_account.Credentials.from_service_account_info
            return maker(told, scopes=SCOPES)  # type: ignore[no-any-return,no-untyped-call]  # google-auth is half typed
        case "authorized_user":
            user = UserCredentials.from_authorized_user_info
            return user(told, scopes=SCOPES)  # type: ignore[no-any-return,no-untyped-call]  # google-auth is half typed
        case _:
            raise ValueError("neither a service account nor a user's sign-in")


class _Answer(transport.Response):
    def __init__(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self._said = (status, headers, data)

    @property
    @override
    def status(self) -> int:
        return self._said[0]

    @property
    @override
    def headers(self) -> Mapping[str, str]:
        return self._said[1]

    @property
    @override
    def data(self) -> bytes:
        return self._said[2]


class _Transport(transport.Request):
    """google-auth's own would need another HTTP library."""

    @override
    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **_more: Any,
    ) -> _Answer:
        if not url.startswith(("https://", "http://")):
            raise TransportError("no web address")  # type: ignore[no-untyped-call]  # google-auth is half typed
        data = body.encode() if isinstance(body, str) else body
        request = urllib.request.Request(  # noqa: S310  its scheme was looked at
            url, data=data, headers=dict(headers or {}), method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout or SECONDS) as answer:  # noqa: S310  the same
                return _Answer(answer.status, dict(answer.headers), answer.read(ANSWER_LIMIT))
        except urllib.error.HTTPError as error:
            with error:
                return _Answer(error.code, dict(error.headers), error.read(ANSWER_LIMIT))
        except OSError as error:
            raise TransportError(type(error).__name__) from None  # type: ignore[no-untyped-call]  # google-auth is half typed


class VertexWire:
    def __init__(
        self,
        settings: ProviderSettings,
        *,
        env: Mapping[str, str] | None = None,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self._settings = settings
        self._env = env or {}
        self._silence_seconds = silence_seconds
        request_headers(settings, bearer(settings.api_key))  # told at once, too
        vertex_url(settings.base_url, "")  # an address that cannot be used is told at once
        self._tokens = None if settings.api_key.strip() else GoogleTokens(settings, self._env)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[list[ModelEvent], None]:
        settings, model = self._settings, request.model.id
        url = vertex_url(settings.base_url, model)
        key = settings.api_key if self._tokens is None else await self._tokens.token()
        body = cloud_body(request, VERTEX, provider=settings.id, extra_body=settings.extra_body)
        post = Post(
            settings=settings,
            model=model,
            url=url,
            headers=request_headers(settings, bearer(key)),
            body=dump(body),
            proxy=proxy_for(url, self._env),
            silence_seconds=self._silence_seconds,
        )
        decoder = AnthropicDecoder(partial(error_in_stream, settings, model))
        async with aclosing(stream_events(post, decoder)) as batches:
            async for batch in batches:
                yield batch
