"""The wire to Anthropic's models at Amazon Bedrock.

It uses Anthropic's events in AWS' framing, and AWS' signature. Only
``agents.llm.providers`` imports it, because it needs the extra ``bedrock``.
"""

from __future__ import annotations

import asyncio
import binascii
import re
from base64 import b64decode
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Unpack
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth  # type: ignore[import-untyped]  # botocore is untyped
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]  # botocore is untyped
from botocore.credentials import Credentials  # type: ignore[import-untyped]  # botocore is untyped
from botocore.eventstream import (  # type: ignore[import-untyped]  # botocore is untyped
    EventStreamBuffer,
    EventStreamMessage,
    ParserError,
)
from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]  # botocore is untyped
from botocore.session import Session  # type: ignore[import-untyped]  # botocore is untyped

from agents.config.settings import ProviderSettings
from agents.llm.contract import ModelEvent, ModelRequest
from agents.llm.errors import BrokenStream, WrongKey
from agents.llm.http_request import bearer, bedrock_url, request_headers
from agents.llm.http_stream import HttpWire, WireOptions
from agents.llm.json_text import dump, parse_object, text_or_empty
from agents.llm.wires.anthropic import BEDROCK, cloud_body
from agents.llm.wires.anthropic_decode import AnthropicDecoder

REGION = re.compile(r"bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.")
FALLBACK_REGION = "us-east-1"
MOST_PROFILES = 64


class Signer:
    def __init__(self, settings: ProviderSettings, env: Mapping[str, str]) -> None:
        self._settings = settings
        self._env = env
        self._region = region_of(settings.base_url, env)
        self._credentials = _from_env(env)

    async def headers(self, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Adds the signature's headers. Raises ``WrongKey`` without keys."""
        return await asyncio.to_thread(self._signed, url, headers, body)

    def _signed(self, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        try:
            credentials = self._credentials or _of_machine(self._env.get("AWS_PROFILE"))
            frozen = credentials.get_frozen_credentials() if credentials is not None else None
        except BotoCoreError as error:
            raise self._no_keys(type(error).__name__) from None
        if frozen is None:
            raise self._no_keys("none were found")
        own = {"Content-Type": headers["Content-Type"], "Accept": headers["Accept"]}
        request = AWSRequest(method="POST", url=url, data=body, headers=own)
        SigV4Auth(frozen, "bedrock", self._region).add_auth(request)
        return {**headers, **dict(request.headers.items())}

    def _no_keys(self, reason: str) -> WrongKey:
        return WrongKey(
            f"{self._settings.name} needs the keys of an AWS account ({reason}). Set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or "
            "AWS_BEARER_TOKEN_BEDROCK."
        )


def region_of(base_url: str, env: Mapping[str, str]) -> str:
    """Returns the region, from the address if it names one: AWS refuses another's signature."""
    if match := REGION.match(urlsplit(base_url).hostname or ""):
        return match[1]
    return env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or FALLBACK_REGION


def _from_env(env: Mapping[str, str]) -> Credentials | None:
    key, secret = env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        return None
    return Credentials(key, secret, env.get("AWS_SESSION_TOKEN") or None)


_machine: dict[str | None, Any] = {}  # by profile; the credentials of a role renew themselves


def _of_machine(profile: str | None) -> Any:
    """Returns the machine's credentials. Blocks; missing ones are looked up again next time."""
    found = _machine.get(profile)
    if found is None:
        found = Session(profile=profile).get_credentials()
        if found is not None and len(_machine) < MOST_PROFILES:
            _machine[profile] = found
    return found


MESSAGE_LIMIT = 4 * 1024 * 1024


class AwsEvents:
    """Splits AWS' framing into the data of events. Raises ``BrokenStream``."""

    def __init__(self) -> None:
        self._buffer = EventStreamBuffer()
        self._waiting = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        self._waiting += len(chunk)
        self._buffer.add_data(chunk)
        events: list[bytes] = []
        try:
            for message in self._buffer:
                self._waiting -= int(message.prelude.total_length)
                if data := _data(message):
                    events.append(data)
        except ParserError:
            raise BrokenStream("The provider sent data that is not an event.") from None
        if self._waiting > MESSAGE_LIMIT:
            raise BrokenStream("The provider sent an event that is too large.")
        return events

    def finish(self) -> list[bytes]:
        return []  # drops half a message: the decoder reports that the reply broke off


def _data(message: EventStreamMessage) -> bytes:
    payload = parse_object(bytes(message.payload)) or {}
    headers = message.headers
    if headers.get(":message-type") in ("exception", "error"):
        kind = headers.get(":exception-type") or headers.get(":error-code")
        message = payload.get("message") or payload.get("Message") or headers.get(":error-message")
        error = {"type": text_or_empty(kind), "message": text_or_empty(message)}
        return dump({"type": "error", "error": error})
    try:
        return b64decode(text_or_empty(payload.get("bytes")), validate=True)
    except (binascii.Error, ValueError):
        raise BrokenStream("The provider sent a damaged event.") from None


class BedrockWire(HttpWire):
    def __init__(self, settings: ProviderSettings, **options: Unpack[WireOptions]) -> None:
        super().__init__(settings, **options)
        bedrock_url(settings.base_url, "")  # reports an unusable address at once
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
        batches = self._request(
            model, url, headers, body, AnthropicDecoder, framing=AwsEvents(), is_signed=True
        )
        async with aclosing(batches):
            async for batch in batches:
                yield batch
