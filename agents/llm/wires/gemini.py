"""The wire to Gemini's own API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import partial

from agents.config.settings import ProviderSettings
from agents.llm.addresses import gemini_url
from agents.llm.contract import SILENCE_SECONDS, ModelEvent, ModelRequest
from agents.llm.error_answers import error_in_stream
from agents.llm.headers import request_headers
from agents.llm.http_stream import Post, stream_events
from agents.llm.json_text import dump
from agents.llm.proxies import proxy_for
from agents.llm.wires.gemini_decode import GeminiDecoder
from agents.llm.wires.gemini_encode import encode


class GeminiWire:
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
        key = settings.api_key.strip()
        name = "Authorization" if key.startswith("Bearer ") else "x-goog-api-key"
        self._headers = request_headers(settings, {name: key} if key else {})

    def stream(self, request: ModelRequest) -> AsyncIterator[list[ModelEvent]]:
        settings, model = self._settings, request.model.id
        url = gemini_url(settings.base_url, model)
        body = encode(request, provider=settings.id, extra_body=settings.extra_body)
        post = Post(
            settings=settings,
            model=model,
            url=url,
            headers=self._headers,
            body=dump(body),
            proxy=proxy_for(url, self._env),
            silence_seconds=self._silence_seconds,
        )
        return stream_events(post, GeminiDecoder(partial(error_in_stream, settings, model)))
