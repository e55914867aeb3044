"""The wire to Anthropic's models at Google Vertex AI.

It uses Anthropic's events and the token of a Google account. Only
``agents.llm.providers`` imports it, because it needs the extra ``vertex``.
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
from functools import lru_cache
from pathlib import Path
from typing import Any, Unpack

import google.auth
from google.auth import transport
from google.auth.credentials import Credentials
from google.auth.exceptions import GoogleAuthError, TransportError
from google.oauth2 import service_account
from google.oauth2.credentials import Credentials as UserCredentials
from typing_extensions import override

from agents.config.settings import ProviderSettings
from agents.llm.contract import ModelEvent, ModelRequest
from agents.llm.errors import Unreachable, WrongKey
from agents.llm.http_request import bearer, request_headers, vertex_url
from agents.llm.http_stream import HttpWire, WireOptions
from agents.llm.json_text import dump
from agents.llm.wires.anthropic import VERTEX, cloud_body
from agents.llm.wires.anthropic_decode import AnthropicDecoder

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
FILE_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
SECONDS = 20.0
ANSWER_LIMIT = 1024 * 1024


class GoogleTokens:
    def __init__(self, settings: ProviderSettings, env: Mapping[str, str]) -> None:
        self._settings = settings
        self._file = env.get(FILE_VARIABLE, "")

    async def token(self) -> str:
        """Returns the token. Raises ``WrongKey`` without an account, and ``Unreachable``."""
        return await asyncio.to_thread(self._token)

    def _token(self) -> str:
        try:
            changed_at = Path(self._file).stat().st_mtime_ns if self._file else 0
            return _account(self._file, changed_at).token()
        except TransportError:
            raise Unreachable(
                f"{self._settings.name}: Google's sign-in cannot be reached. Check the network."
            ) from None
        except (GoogleAuthError, OSError, ValueError) as error:
            raise WrongKey(
                f"{self._settings.name} needs a Google Cloud account "
                f"({type(error).__name__}). Set GOOGLE_APPLICATION_CREDENTIALS to the file of "
                "one, or sign in with 'gcloud auth application-default login'."
            ) from None


class _Account:
    """A Google account, whose token is renewed shortly before it expires."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._lock = threading.Lock()

    def token(self) -> str:
        with self._lock:
            if not self._credentials.valid:
                self._credentials.refresh(_Transport())  # type: ignore[no-untyped-call]  # google-auth is half typed
            return str(self._credentials.token)


@lru_cache(maxsize=64)
def _account(file: str, changed_at: int) -> _Account:  # noqa: ARG001  a cache key
    return _Account(_found(file))


def _found(file: str) -> Credentials:
    if not file or file == os.environ.get(FILE_VARIABLE):
        found, _project = google.auth.default(scopes=SCOPES)
        return found
    # A client names this file. Other kinds of accounts can run programs or request any address.
    content = json.loads(Path(file).read_bytes()[:ANSWER_LIMIT])
    match content.get("type") if isinstance(content, dict) else None:
        case "service_account":
            maker = service_account.Credentials.from_service_account_info
            return maker(content, scopes=SCOPES)  # type: ignore[no-any-return,no-untyped-call]  # google-auth is half typed
        case "authorized_user":
            user = UserCredentials.from_authorized_user_info
            return user(content, scopes=SCOPES)  # type: ignore[no-any-return,no-untyped-call]  # google-auth is half typed
        case _:
            raise ValueError("neither a service account nor a user's sign-in")


class _Answer(transport.Response):
    def __init__(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self._response = (status, headers, data)

    @property
    @override
    def status(self) -> int:
        return self._response[0]

    @property
    @override
    def headers(self) -> Mapping[str, str]:
        return self._response[1]

    @property
    @override
    def data(self) -> bytes:
        return self._response[2]


class _Transport(transport.Request):
    """An HTTP transport for google-auth, whose own ones need another HTTP library."""

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
        request = urllib.request.Request(  # noqa: S310  its scheme was checked
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


class VertexWire(HttpWire):
    def __init__(self, settings: ProviderSettings, **options: Unpack[WireOptions]) -> None:
        super().__init__(settings, **options)
        request_headers(settings, bearer(settings.api_key))  # reports a bad header or key at once
        vertex_url(settings.base_url, "")  # reports an unusable address at once
        self._tokens = None if settings.api_key.strip() else GoogleTokens(settings, self._env)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[list[ModelEvent], None]:
        settings, model = self._settings, request.model.id
        url = vertex_url(settings.base_url, model)
        key = settings.api_key if self._tokens is None else await self._tokens.token()
        body = cloud_body(request, VERTEX, provider=settings.id, extra_body=settings.extra_body)
        batches = self._request(
            model, url, request_headers(settings, bearer(key)), dump(body), AnthropicDecoder
        )
        async with aclosing(batches):
            async for batch in batches:
                yield batch
