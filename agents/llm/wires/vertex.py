"""The wire to Anthropic's models at Google Vertex AI.

Anthropic's own events, with a Google account's token. Imported by
``agents.llm.providers`` alone, for it needs the extra ``vertex``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial

from agents.config.settings import ProviderSettings
from agents.llm.addresses import vertex_url
from agents.llm.contract import SILENCE_SECONDS, ModelEvent, ModelRequest
from agents.llm.error_answers import error_in_stream
from agents.llm.headers import bearer, request_headers
from agents.llm.http_stream import Post, stream_events
from agents.llm.json_text import dump
from agents.llm.proxies import proxy_for
from agents.llm.wires.anthropic_decode import AnthropicDecoder
from agents.llm.wires.cloud_body import VERTEX, cloud_body
from agents.llm.wires.google_tokens import GoogleTokens


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
