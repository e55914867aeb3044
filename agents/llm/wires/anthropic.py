"""The wire to Anthropic's messages API and to servers that are compatible."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import partial

from agents.config.settings import ProviderSettings
from agents.llm.addresses import anthropic_url
from agents.llm.contract import SILENCE_SECONDS, ModelEvent, ModelRequest
from agents.llm.error_answers import error_in_stream
from agents.llm.headers import request_headers
from agents.llm.http_stream import Post, stream_events
from agents.llm.json_text import dump
from agents.llm.proxies import proxy_for
from agents.llm.wires.anthropic_decode import AnthropicDecoder
from agents.llm.wires.anthropic_encode import encode

API_VERSION = "2023-06-01"


class AnthropicWire:
    def __init__(
        self,
        settings: ProviderSettings,
        *,
        env: Mapping[str, str] | None = None,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self._settings = settings
        self._url = anthropic_url(settings.base_url)
        self._proxy = proxy_for(self._url, env or {})
        self._silence_seconds = silence_seconds
        key = settings.api_key.strip()
        own = {"anthropic-version": API_VERSION}
        if key:
            own["Authorization" if key.startswith("Bearer ") else "x-api-key"] = key
        self._headers = request_headers(settings, own)

    def stream(self, request: ModelRequest) -> AsyncIterator[list[ModelEvent]]:
        settings, model = self._settings, request.model.id
        body = encode(request, provider=settings.id, extra_body=settings.extra_body)
        post = Post(
            settings=settings,
            model=model,
            url=self._url,
            headers=self._headers,
            body=dump(body),
            proxy=self._proxy,
            silence_seconds=self._silence_seconds,
        )
        return stream_events(post, AnthropicDecoder(partial(error_in_stream, settings, model)))
