"""One streamed request: posts a body, reads events, yields a batch for each read.

Owns what can go wrong on the way (connecting, silence, answers that are no
stream) and says it as a ``ModelError``. Knows no dialect: a decoder does.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp
from yarl import URL

from agents.config.settings import ProviderSettings
from agents.llm.connections import CONNECT_SECONDS, session, settle
from agents.llm.contract import SILENCE_SECONDS, ModelEvent, Stopped, TextDelta
from agents.llm.error_answers import error_for_answer, shown_url
from agents.llm.errors import (
    BadRequest,
    BrokenStream,
    ContentFiltered,
    ModelError,
    Silent,
    Unreachable,
)
from agents.llm.read_batching import gathering_here
from agents.llm.sse_lines import SseLines
from workspaces.log.parts import FinishReason

LOOKS = 4  # within the time allowed: so much later than it, at most, silence is noticed


class SilenceWatch:
    """From its making to ``stop``: silence is a ``TimeoutError`` of whoever reads the body."""

    __slots__ = ("_content", "_heard", "_loop", "_pause", "_quiet_looks", "_timer")

    def __init__(self, response: aiohttp.ClientResponse, seconds: float) -> None:
        connection = response.connection
        if connection is not None and connection.protocol is not None:
            connection.protocol.read_timeout = None  # its next request sets its own
        self._content = response.content
        self._heard = self._content.total_bytes
        self._quiet_looks = 0
        self._pause = seconds / LOOKS
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._pause, self._look)

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        heard = self._content.total_bytes
        self._quiet_looks = self._quiet_looks + 1 if heard == self._heard else 0
        self._heard = heard
        if self._quiet_looks < LOOKS:
            self._timer = self._loop.call_later(self._pause, self._look)
        else:
            self._content.set_exception(TimeoutError())


ERROR_BODY_LIMIT = 64 * 1024
LARGE_BODY = 512 * 1024  # aiohttp wants larger ones as a file


class Decoder(Protocol):
    stopped: bool

    def feed(self, data: bytes) -> list[ModelEvent]: ...

    def end(self) -> list[ModelEvent]: ...


class Framing(Protocol):
    """Cuts the bytes of an answer into the data of its events."""

    def feed(self, chunk: bytes) -> list[bytes]: ...

    def finish(self) -> list[bytes]: ...


@dataclass(frozen=True, slots=True)
class Post:
    """What is asked, and whom."""

    settings: ProviderSettings
    model: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    proxy: str | None = field(default=None, repr=False)
    silence_seconds: float = SILENCE_SECONDS
    is_signed: bool = False  # the address goes out exactly as it was signed


async def stream_events(
    post: Post, decoder: Decoder, framing: Framing | None = None
) -> AsyncGenerator[list[ModelEvent], None]:
    """Ends with ``Stopped`` or raises ``ModelError``. Closing it closes the connection."""
    response = await _open(post)
    silence: SilenceWatch | None = None
    gathering = gathering_here()
    gathering.streams += 1
    try:
        await _refuse_what_is_no_stream(post, response)
        silence = SilenceWatch(response, post.silence_seconds)
        lines = framing or SseLines()
        body, cut, decode = response.content, lines.feed, decoder.feed
        while not decoder.stopped:
            chunk = await gathering.read(body)
            batch: list[ModelEvent] = []
            try:
                for data in cut(chunk) if chunk else lines.finish():
                    batch += decode(data)
                if not chunk:
                    batch += decoder.end()
            except ModelError:
                if batch:
                    yield batch  # what was said before it broke is shown all the same
                raise
            if batch:
                yield batch
    except ContentFiltered as error:
        # A refusal, only said before the reply instead of in it.
        yield [TextDelta(error.sentence), Stopped(FinishReason.CONTENT_FILTER)]
    except TimeoutError:
        raise _silent(post) from None
    except (aiohttp.ClientError, OSError):
        name = post.settings.name
        raise BrokenStream(f"The connection to {name} broke in the middle of a reply.") from None
    finally:
        gathering.streams -= 1
        if silence is not None:
            silence.stop()
        if decoder.stopped:
            settle(response)
        else:
            response.close()


async def _open(post: Post) -> aiohttp.ClientResponse:
    data = post.body if len(post.body) < LARGE_BODY else io.BytesIO(post.body)
    timeout = aiohttp.ClientTimeout(
        total=None,
        connect=CONNECT_SECONDS * 3,  # with the name's lookup, which has no limit of its own
        sock_connect=CONNECT_SECONDS,
        sock_read=post.silence_seconds,
    )
    where = f"{post.settings.name} at {shown_url(post.settings.base_url)}"
    try:
        return await session().post(
            URL(post.url, encoded=True) if post.is_signed else post.url,
            data=data,
            headers=post.headers,
            proxy=post.proxy,
            timeout=timeout,
            # A redirect would carry the key to whoever it names.
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
        # Not quoted: an address may hold a key.
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
        f"{post.settings.name} sent nothing for {post.silence_seconds:g} s, so the request was "
        "given up."
    )
