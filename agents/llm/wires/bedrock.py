"""The wire to Anthropic's models at Amazon Bedrock.

Anthropic's events in AWS' framing, under AWS' signature. Imported by
``agents.llm.providers`` alone, for it needs the extra ``bedrock``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial

from agents.config.settings import ProviderSettings
from agents.llm.addresses import bedrock_url
from agents.llm.contract import SILENCE_SECONDS, ModelEvent, ModelRequest
from agents.llm.error_answers import error_in_stream
from agents.llm.headers import bearer, request_headers
from agents.llm.http_stream import Post, stream_events
from agents.llm.json_text import dump
from agents.llm.proxies import proxy_for
from agents.llm.wires.anthropic_decode import AnthropicDecoder
from agents.llm.wires.aws_events import AwsEvents
from agents.llm.wires.aws_signing import Signer
from agents.llm.wires.cloud_body import BEDROCK, cloud_body


class BedrockWire:
    def __init__(
        self,
        settings: ProviderSettings,
        *,
        env: Mapping[str, str] | None = None,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        bedrock_url(settings.base_url, "")  # an address that cannot be used is told at once
        self._settings = settings
        self._env = env or {}
        self._silence_seconds = silence_seconds
        key = settings.api_key or self._env.get("AWS_BEARER_TOKEN_BEDROCK", "")
        own = {"Accept": "application/vnd.amazon.eventstream", **bearer(key)}
        self._headers = request_headers(settings, own)
        self._signer = None if key.strip() else Signer(settings, self._env)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[list[ModelEvent], None]:
        settings, model = self._settings, request.model.id
        url = bedrock_url(settings.base_url, model)
        body = dump(
            cloud_body(request, BEDROCK, provider=settings.id, extra_body=settings.extra_body)
        )
        headers = self._headers
        if self._signer is not None:
            headers = await self._signer.headers(url, headers, body)
        post = Post(
            settings=settings,
            model=model,
            url=url,
            headers=headers,
            body=body,
            proxy=proxy_for(url, self._env),
            silence_seconds=self._silence_seconds,
            is_signed=True,
        )
        decoder = AnthropicDecoder(partial(error_in_stream, settings, model))
        async with aclosing(stream_events(post, decoder, AwsEvents())) as batches:
            async for batch in batches:
                yield batch
