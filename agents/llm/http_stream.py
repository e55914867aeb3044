"""One streamed request: posts a body, reads events, yields a batch for each read.

Turns connection errors, timeouts and responses that are not streams into a
``ModelError``. A decoder handles the dialect.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypedDict, Unpack

import aiohttp
from yarl import URL

from agents.config.settings import ProviderSettings
from agents.llm.connections import CONNECT_SECONDS, session, settle
from agents.llm.contract import IDLE_SECONDS, ModelEvent, Stopped, TextDelta
from agents.llm.error_answers import error_for_answer, error_in_stream, shown_url
from agents.llm.errors import (
    BadRequest,
    BrokenStream,
    ContentFiltered,
    ModelError,
    Silent,
    Unreachable,
)
from agents.llm.http_request import proxy_for
from agents.llm.sse_lines import SseLines
from workspaces.log.parts import FinishReason

LOOKS = 4  # checks per idle timeout: it is noticed at most a quarter of it late


class IdleWatch:
    """Makes the body's reader raise ``TimeoutError`` if the provider is silent before ``stop``."""

    __slots__ = ("_content", "_idle_checks", "_loop", "_pause", "_received", "_timer")

    def __init__(self, response: aiohttp.ClientResponse, seconds: float) -> None:
        connection = response.connection
        if connection is not None and connection.protocol is not None:
            connection.protocol.read_timeout = None  # the next request on it sets its own
        self._content = response.content
        self._received = self._content.total_bytes
        self._idle_checks = 0
        self._pause = seconds / LOOKS
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._pause, self._look)

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        received = self._content.total_bytes
        self._idle_checks = self._idle_checks + 1 if received == self._received else 0
        self._received = received
        if self._idle_checks < LOOKS:
            self._timer = self._loop.call_later(self._pause, self._look)
        else:
            self._content.set_exception(TimeoutError())


ERROR_BODY_LIMIT = 64 * 1024
LARGE_BODY = 512 * 1024  # larger bodies are sent as a file: aiohttp warns about large bytes


class Decoder(Protocol):
    stopped: bool

    def feed(self, data: bytes) -> list[ModelEvent]: ...

    def end(self) -> list[ModelEvent]: ...


class Framing(Protocol):
    """Splits the bytes of a response into the data of its events."""

    def feed(self, chunk: bytes) -> list[bytes]: ...

    def finish(self) -> list[bytes]: ...


@dataclass(frozen=True, slots=True)
class Post:
    """One request and its provider."""

    settings: ProviderSettings
    model: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    proxy: str | None = field(default=None, repr=False)
    idle_seconds: float = IDLE_SECONDS
    is_signed: bool = False  # the address is sent exactly as it was signed


class WireOptions(TypedDict, total=False):
    env: Mapping[str, str]  # the workspace's, which may name proxies
    idle_seconds: float


class HttpWire:
    """What all wires over HTTP have in common: a provider, and how to request a reply from it."""

    def __init__(self, settings: ProviderSettings, **options: Unpack[WireOptions]) -> None:
        self._settings = settings
        self._env = options.get("env", {})
        self._idle_seconds = options.get("idle_seconds", IDLE_SECONDS)

    def _request(
        self,
        model: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        decoder: Callable[[Callable[[object], ModelError]], Decoder],
        *,
        framing: Framing | None = None,
        is_signed: bool = False,
    ) -> AsyncGenerator[list[ModelEvent], None]:
        """Streams one reply. ``decoder`` gets what makes an error of the stream a ``ModelError``."""
        post = Post(
            settings=self._settings,
            model=model,
            url=url,
            headers=headers,
            body=body,
            proxy=proxy_for(url, self._env),
            idle_seconds=self._idle_seconds,
            is_signed=is_signed,
        )
        error_for = partial(error_in_stream, self._settings, model)
        return stream_events(post, decoder(error_for), framing)


async def stream_events(
    post: Post, decoder: Decoder, framing: Framing | None = None
) -> AsyncGenerator[list[ModelEvent], None]:
    """Yields batches of events; ends with ``Stopped`` or raises ``ModelError``.

    Closing the generator closes the connection.
    """
    response = await _open(post)
    idle_watch: IdleWatch | None = None
    try:
        await _refuse_what_is_no_stream(post, response)
        idle_watch = IdleWatch(response, post.idle_seconds)
        lines = framing or SseLines()
        body, cut, decode = response.content, lines.feed, decoder.feed
        while not decoder.stopped:
            chunk = await body.readany()
            batch: list[ModelEvent] = []
            try:
                for data in cut(chunk) if chunk else lines.finish():
                    batch += decode(data)
                if not chunk:
                    batch += decoder.end()
            except ModelError:
                if batch:
                    yield batch  # the events before the error are still shown
                raise
            if batch:
                yield batch
    except ContentFiltered as error:
        # The same refusal as inside a reply, sent before the reply.
        yield [TextDelta(error.sentence), Stopped(FinishReason.CONTENT_FILTER)]
    except TimeoutError:
        raise _silent(post) from None
    except (aiohttp.ClientError, OSError):
        name = post.settings.name
        raise BrokenStream(f"The connection to {name} broke in the middle of a reply.") from None
    finally:
        if idle_watch is not None:
            idle_watch.stop()
        if decoder.stopped:
            settle(response)
        else:
            response.close()


async def _open(post: Post) -> aiohttp.ClientResponse:
    data = post.body if len(post.body) < LARGE_BODY else io.BytesIO(post.body)
    timeout = aiohttp.ClientTimeout(
        total=None,
        connect=CONNECT_SECONDS * 3,  # includes the DNS lookup, which has no limit of its own
        sock_connect=CONNECT_SECONDS,
        sock_read=post.idle_seconds,
    )
    where = f"{post.settings.name} at {shown_url(post.settings.base_url)}"
    try:
        return await session().post(
            URL(post.url, encoded=True) if post.is_signed else post.url,
            data=data,
            headers=post.headers,
            proxy=post.proxy,
            timeout=timeout,
            # A redirect would send the key to another host.
            allow_redirects=False,
        )
    except aiohttp.ClientConnectorCertificateError:
        raise Unreachable(
            f"{where} shows a certificate that is not trusted.", retryable=False
        ) from None
    except aiohttp.ConnectionTimeoutError:
        raise Unreachable(
            f"{where} did not accept a connection within {CONNECT_SECONDS:g} s."
        ) from None
    except TimeoutError:
        raise _silent(post) from None
    except aiohttp.ClientConnectorError as error:
        reason = error.os_error.strerror or type(error.os_error).__name__
        raise Unreachable(
            f"{where} cannot be reached ({reason}). Is it running, and is base_url right?"
        ) from None
    except (aiohttp.InvalidURL, ValueError):
        # The error does not quote the address, which may hold a key.
        raise BadRequest(
            f"bad request: base_url of provider '{post.settings.id}' in crush.json, or the proxy "
            "in the environment, is not a URL."
        ) from None
    except (aiohttp.ClientError, OSError):
        raise Unreachable(f"{where} ended the connection without an answer.") from None


async def _refuse_what_is_no_stream(post: Post, response: aiohttp.ClientResponse) -> None:
    kind = response.content_type
    if response.status == 200 and kind not in ("application/json", "text/html"):
        return
    body = await _read_at_most(response, ERROR_BODY_LIMIT)
    if response.status != 200:
        raise error_for_answer(
            post.settings,
            post.model,
            status=response.status,
            body=body,
            headers=response.headers,
            now=time.time(),
        )
    if b'"error"' in body:
        raise error_for_answer(
            post.settings, post.model, status=400, body=body, headers={}, now=0.0
        )
    raise BadRequest(
        f"bad request: {shown_url(post.settings.base_url)} answered with {kind} instead of a "
        f"stream. Check base_url of provider '{post.settings.id}' in crush.json."
    )


async def _read_at_most(response: aiohttp.ClientResponse, limit: int) -> bytes:
    body = bytearray()
    while len(body) < limit and (chunk := await response.content.readany()):
        body += chunk
    return bytes(body[:limit])


def _silent(post: Post) -> Silent:
    return Silent(
        f"{post.settings.name} sent nothing for {post.idle_seconds:g} s, so the request was "
        "given up."
    )
