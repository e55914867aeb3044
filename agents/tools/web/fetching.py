"""Asks the web: each hop judged and pinned, everything bounded.

A host's addresses are looked up once, judged, and then exactly these are
connected to, so that a name server cannot answer one thing to the judge and
another to the connection. The same for every redirect. Through a proxy of the
environment the proxy looks names up: what our own name server knows is judged,
the rest is the proxy's to refuse. Imports aiohttp (0.4 s): import it on first use.
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

from agents.llm.proxies import proxy_for
from agents.tools.contract import ToolContext, ToolRefusal
from agents.tools.limits import CONNECT_SECONDS, MAX_REDIRECTS
from agents.tools.web.access import Access
from agents.tools.web.addresses import Address, literal
from agents.tools.web.urls import checked, web_url


async def system_addresses(host: str, port: int) -> list[Address]:
    """What this machine's name service answers. Raises ``OSError``."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # In the order given, which is the one to try; each once.
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
            raise OSError(f"{host} was not judged")
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


SPOKEN = "gzip, deflate"
_PIECE = 128 * 1024


class BodyDecoder:
    def __init__(self, encoding: str) -> None:
        """Raises ``ToolRefusal`` for an encoding that was not asked for."""
        self._encoding = encoding.strip().lower()
        if self._encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ToolRefusal("The server's answer has a content encoding that was not requested.")
        self._inflate: zlib._Decompress | None = None

    @property
    def is_whole(self) -> bool:
        """Whether a packed body has come to its end."""
        return self._inflate is None or self._inflate.eof

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Raises ``ToolRefusal`` where the body is broken."""
        if self._encoding in ("", "identity"):
            if chunk:
                yield chunk
            return
        try:
            yield from self._unpacked(chunk)
        except zlib.error:
            raise ToolRefusal("The server's answer is packed and broken.") from None

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
                # gzip may be several packets one after the other; anything else is filling.
                if self._encoding == "deflate" or not chunk.startswith(b"\x1f\x8b"):
                    return
                self._inflate = None
            elif not piece and not chunk:
                return

    def _window(self, chunk: bytes) -> int:
        if self._encoding != "deflate":
            return 16 + zlib.MAX_WBITS
        # "deflate" means a zlib head; some servers leave it out.
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
    """The web as one call may reach it."""

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
    packed: bool = True  # whether a compressed answer is asked for
    follows: bool = True  # redirects


class WebAnswer:
    """An answer whose body is still to be read."""

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
        """What the server says of the body's size; ``None`` where it is packed or unknown."""
        if self._response.headers.get("Content-Encoding", "identity").lower() != "identity":
            return None
        return self._response.content_length

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body, unpacked. Raises ``ToolRefusal`` where it breaks off."""
        async for chunk in self._response.content.iter_any():
            for piece in self._decoder.feed(chunk):
                yield piece
        if not self._decoder.is_whole:
            raise ToolRefusal("The server's answer broke off.")

    async def read(self, limit_bytes: int) -> tuple[bytes, bool]:
        """So much of the body, and whether there was more."""
        body = bytearray()
        async for piece in self.pieces():
            body += piece
            if len(body) > limit_bytes:
                return bytes(body[:limit_bytes]), True
        return bytes(body), False


@asynccontextmanager
async def asked(web: Web, request: Request) -> AsyncIterator[WebAnswer]:
    """The answer to the last hop. Raises ``ToolRefusal``; so does what is read within."""
    url = web_url(request.url)
    try:
        async with asyncio.timeout(request.seconds):
            for _ in range(MAX_REDIRECTS + 1):
                async with _hop(web, url, request) as response:
                    target = _target(response) if request.follows else None
                    if target is None:
                        yield WebAnswer(response)
                        return
                    url = target
    except TimeoutError:
        raise ToolRefusal(f"{url.host} took longer than {request.seconds:g} seconds.") from None
    except aiohttp.ClientConnectorCertificateError:
        raise ToolRefusal(f"{url.host} has no certificate that can be trusted.") from None
    except aiohttp.ClientConnectorError:
        raise ToolRefusal(f"{url.host} cannot be connected to.") from None
    except (aiohttp.ClientError, OSError, ValueError, zlib.error) as error:
        # Their own words may hold a proxy's account.
        raise ToolRefusal(f"{url.host} did not answer well: {type(error).__name__}.") from None
    raise ToolRefusal(f"The server leads from page to page: more than {MAX_REDIRECTS} redirects.")


@asynccontextmanager
async def _hop(web: Web, url: URL, request: Request) -> AsyncIterator[aiohttp.ClientResponse]:
    proxy = proxy_for(str(url), web.env)
    addresses = await _judged(web, url, by_proxy=proxy is not None)
    headers = {
        "User-Agent": AGENT,
        "Accept-Encoding": SPOKEN if request.packed else "identity",
        **request.headers,
    }
    host = url.host or ""
    connector = aiohttp.TCPConnector() if proxy else pinned_connector(host, addresses)
    async with (
        aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            auto_decompress=False,  # a bomb is unpacked with care
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


async def _judged(web: Web, url: URL, *, by_proxy: bool) -> list[Address]:
    host, port = url.host or "", url.port or 0
    written = literal(host)
    if written is not None:
        addresses = [written]
    else:
        try:
            addresses = await web.lookup(host, port)
        except (OSError, UnicodeError):
            if by_proxy:
                return []  # a network whose names only the proxy knows
            raise ToolRefusal(f"{host} is not known: no address was found for it.") from None
        if not addresses and not by_proxy:
            raise ToolRefusal(f"{host} is not known: no address was found for it.")
    web.access.check(host, port, addresses)
    return addresses


def _target(response: aiohttp.ClientResponse) -> URL | None:
    where = response.headers.get("Location", "").strip()
    if response.status not in _MOVED or not where:
        return None
    try:
        return checked(response.url.join(URL(where)))
    except (ValueError, UnicodeError):
        raise ToolRefusal("The server leads to a URL that cannot be understood.") from None
