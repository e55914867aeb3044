"""Sends web requests: checks and pins the addresses of each hop, within limits.

A host's addresses are looked up once and checked. The connection then uses exactly
these addresses, so that a name server cannot return one address to the check and
another to the connection. The same holds for every redirect. A proxy of the
environment looks names up itself: names that the local name service resolves are checked
here, and the proxy must refuse the rest. The module imports aiohttp (0.4 s), so import
it on first use.
"""

from __future__ import annotations

import asyncio
import socket
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override
from yarl import URL

from agents.llm.http_request import proxy_for
from agents.tools.contract import ToolContext, ToolRefusal
from agents.tools.limits import CONNECT_SECONDS, MAX_REDIRECTS
from agents.tools.web.access import Access, Address, checked, literal, web_url


async def system_addresses(host: str, port: int) -> list[Address]:
    """Returns the addresses from the local name service. Raises ``OSError``."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # Keep the order, which is the order of attempts, and drop duplicates.
    return [ip_address(text) for text in dict.fromkeys(str(info[4][0]) for info in found)]


def pinned_connector(host: str, addresses: Sequence[Address]) -> aiohttp.TCPConnector:
    return aiohttp.TCPConnector(resolver=_Pinned(host, addresses), use_dns_cache=False, limit=1)


class _Pinned(AbstractResolver):
    def __init__(self, host: str, addresses: Sequence[Address]) -> None:
        self._host = host
        self._addresses = addresses

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        if host.rstrip(".").lower() != self._host.rstrip(".").lower():
            raise OSError(f"{host} was not checked")
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    @override
    async def close(self) -> None:
        pass


ENCODINGS = "gzip, deflate"
_PIECE = 128 * 1024


class BodyDecoder:
    def __init__(self, encoding: str) -> None:
        """Raises ``ToolRefusal`` for an encoding that was not requested."""
        self._encoding = encoding.strip().lower()
        if self._encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ToolRefusal(
                "The server's response has a content encoding that was not requested."
            )
        self._inflate: zlib._Decompress | None = None

    @property
    def is_whole(self) -> bool:
        """Whether a compressed body is complete."""
        return self._inflate is None or self._inflate.eof

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Decompresses a chunk. Raises ``ToolRefusal`` for a corrupt body."""
        if self._encoding in ("", "identity"):
            if chunk:
                yield chunk
            return
        try:
            yield from self._unpacked(chunk)
        except zlib.error:
            raise ToolRefusal("The server's response cannot be decompressed.") from None

    def _unpacked(self, chunk: bytes) -> Iterator[bytes]:
        while chunk:
            if self._inflate is None:
                self._inflate = zlib.decompressobj(self._window(chunk))
            piece = self._inflate.decompress(chunk, _PIECE)
            if piece:
                yield piece
            chunk = self._inflate.unconsumed_tail
            if self._inflate.eof:
                chunk = self._inflate.unused_data
                # gzip data may have several members; anything else after one is padding.
                if self._encoding == "deflate" or not chunk.startswith(b"\x1f\x8b"):
                    return
                self._inflate = None
            elif not piece and not chunk:
                return

    def _window(self, chunk: bytes) -> int:
        if self._encoding != "deflate":
            return 16 + zlib.MAX_WBITS
        # "deflate" requires a zlib header, which some servers omit.
        has_head = chunk[0] & 0x0F == 8 and (
            len(chunk) < 2 or (chunk[0] * 256 + chunk[1]) % 31 == 0
        )
        return zlib.MAX_WBITS if has_head else -zlib.MAX_WBITS


AGENT = "Mozilla/5.0 (compatible; crush-server)"
_MOVED = frozenset({301, 302, 303, 307, 308})
_BUFFER = 128 * 1024

Lookup = Callable[[str, int], Awaitable[list[Address]]]


@dataclass(frozen=True, slots=True)
class Web:
    """The access of one tool call to the web."""

    access: Access
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # for its proxies
    lookup: Lookup = system_addresses  # raises OSError


def web_of(context: ToolContext, *more_allowed: str) -> Web:
    return Web(Access((*context.web_allowed_hosts, *more_allowed)), context.env)


@dataclass(frozen=True, slots=True)
class Request:
    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    seconds: float = 30.0
    packed: bool = True  # whether to request a compressed response
    follows: bool = True  # redirects


class WebAnswer:
    """A response whose body is not yet read."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._decoder = BodyDecoder(response.headers.get("Content-Encoding", ""))
        self.url = str(response.url.with_fragment(None))
        self.status = response.status
        self.mime_type = (response.content_type or "").lower()
        self.has_type = "Content-Type" in response.headers
        self.charset = response.charset or ""

    @property
    def length(self) -> int | None:
        """The declared size of the body; ``None`` if it is compressed or unknown."""
        if self._response.headers.get("Content-Encoding", "identity").lower() != "identity":
            return None
        return self._response.content_length

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yields the decompressed body. Raises ``ToolRefusal`` for an incomplete body."""
        async for chunk in self._response.content.iter_any():
            for piece in self._decoder.feed(chunk):
                yield piece
        if not self._decoder.is_whole:
            raise ToolRefusal("The server's response ended too early.")

    async def read(self, limit_bytes: int) -> tuple[bytes, bool]:
        """Returns the body up to the limit, and whether there was more."""
        body = bytearray()
        async for piece in self.pieces():
            body += piece
            if len(body) > limit_bytes:
                return bytes(body[:limit_bytes]), True
        return bytes(body), False


@asynccontextmanager
async def response_to(web: Web, request: Request) -> AsyncIterator[WebAnswer]:
    """Sends a request and yields the response after redirects. Raises ``ToolRefusal``.

    Errors while the body is read inside the context also become ``ToolRefusal``.
    """
    url = web_url(request.url)
    try:
        async with asyncio.timeout(request.seconds):
            for _ in range(MAX_REDIRECTS + 1):
                async with _request_once(web, url, request) as response:
                    target = _target(response) if request.follows else None
                    if target is None:
                        yield WebAnswer(response)
                        return
                    url = target
    except TimeoutError:
        raise ToolRefusal(f"{url.host} took longer than {request.seconds:g} seconds.") from None
    except aiohttp.ClientConnectorCertificateError:
        raise ToolRefusal(f"{url.host} has no trusted certificate.") from None
    except aiohttp.ClientConnectorError:
        raise ToolRefusal(f"{url.host} does not accept the connection.") from None
    except (aiohttp.ClientError, OSError, ValueError, zlib.error) as error:
        # The exception's text may contain a proxy's credentials.
        raise ToolRefusal(
            f"{url.host} did not respond as expected: {type(error).__name__}."
        ) from None
    raise ToolRefusal(f"The server redirected more than {MAX_REDIRECTS} times.")


@asynccontextmanager
async def _request_once(
    web: Web, url: URL, request: Request
) -> AsyncIterator[aiohttp.ClientResponse]:
    proxy = proxy_for(str(url), web.env)
    addresses = await _checked_addresses(web, url, by_proxy=proxy is not None)
    headers = {
        "User-Agent": AGENT,
        "Accept-Encoding": ENCODINGS if request.packed else "identity",
        **request.headers,
    }
    host = url.host or ""
    connector = aiohttp.TCPConnector() if proxy else pinned_connector(host, addresses)
    async with (
        aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            auto_decompress=False,  # ``BodyDecoder`` limits the size
            read_bufsize=_BUFFER,
            trust_env=False,
        ) as session,
        session.request(
            request.method,
            url,
            headers=headers,
            data=request.body,
            allow_redirects=False,
            proxy=proxy,
        ) as response,
    ):
        yield response


async def _checked_addresses(web: Web, url: URL, *, by_proxy: bool) -> list[Address]:
    host, port = url.host or "", url.port or 0
    written = literal(host)
    if written is not None:
        addresses = [written]
    else:
        try:
            addresses = await web.lookup(host, port)
        except (OSError, UnicodeError):
            if by_proxy:
                return []  # only the proxy may resolve the name
            raise ToolRefusal(f"No address was found for {host}.") from None
        if not addresses and not by_proxy:
            raise ToolRefusal(f"No address was found for {host}.")
    web.access.check(host, port, addresses)
    return addresses


def _target(response: aiohttp.ClientResponse) -> URL | None:
    where = response.headers.get("Location", "").strip()
    if response.status not in _MOVED or not where:
        return None
    try:
        return checked(response.url.join(URL(where)))
    except (ValueError, UnicodeError):
        raise ToolRefusal("The server redirected to a malformed URL.") from None
