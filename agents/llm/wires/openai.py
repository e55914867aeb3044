"""The wire to OpenAI's chat completions and to servers that are compatible.

Azure speaks the same, at an address of its own and with the key in another header.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import partial

from agents.config.settings import ProviderSettings
from agents.llm.addresses import azure_url, openai_url
from agents.llm.contract import SILENCE_SECONDS, ModelEvent, ModelRequest
from agents.llm.error_answers import error_in_stream
from agents.llm.headers import bearer, request_headers
from agents.llm.http_stream import Post, stream_events
from agents.llm.json_text import dump
from agents.llm.proxies import proxy_for
from agents.llm.wires.openai_decode import OpenAIDecoder
from agents.llm.wires.openai_dialects import dialect_of
from agents.llm.wires.openai_encode import encode


class OpenAIWire:
    def __init__(
        self,
        settings: ProviderSettings,
        *,
        env: Mapping[str, str] | None = None,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self._settings = settings
        self._dialect = dialect_of(settings)
        self._env = env or {}
        self._silence_seconds = silence_seconds
        key = settings.api_key.strip()
        is_azures = settings.kind == "azure" and key and not key.startswith("Bearer ")
        self._headers = request_headers(settings, {"api-key": key} if is_azures else bearer(key))
        self._url("")  # an address that cannot be used is told at once

    def stream(self, request: ModelRequest) -> AsyncIterator[list[ModelEvent]]:
        settings, model = self._settings, request.model.id
        url = self._url(model)
        body = encode(
            request, provider=settings.id, dialect=self._dialect, extra_body=settings.extra_body
        )
        post = Post(
            settings=settings,
            model=model,
            url=url,
            headers=self._headers,
            body=dump(body),
            proxy=proxy_for(url, self._env),
            silence_seconds=self._silence_seconds,
        )
        return stream_events(post, OpenAIDecoder(partial(error_in_stream, settings, model)))

    def _url(self, model: str) -> str:
        base_url = self._settings.base_url
        if self._settings.kind != "azure":
            return openai_url(base_url)
        return azure_url(base_url, model, self._env.get("AZURE_OPENAI_API_VERSION", ""))
