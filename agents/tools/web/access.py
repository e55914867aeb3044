"""Decides which hosts may be reached: the public web, and the private hosts configured.

The list contains entries of the forms ``host``, ``host:port``, ``*.domain``, an
address, a network (``10.0.0.0/8``) or ``*``. An invalid entry allows nothing. No
function looks names up.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TYPE_CHECKING, TypeAlias

from agents.tools.contract import ToolRefusal
from agents.tools.limits import MAX_URL_BYTES

if TYPE_CHECKING:
    from yarl import URL


def web_url(written: str) -> URL:
    """Parses a URL without its fragment. Raises ``ToolRefusal`` without any credentials."""
    from yarl import URL  # noqa: PLC0415  not needed before the first use of the web

    written = written.strip()
    if len(written.encode(errors="replace")) > MAX_URL_BYTES:
        raise ToolRefusal(f"The URL is longer than {MAX_URL_BYTES:,} bytes.")
    if not written.lower().startswith(("http://", "https://")):
        raise ToolRefusal("The URL must begin with http:// or https://.")
    if any(letter <= " " or letter == "\x7f" for letter in written):
        raise ToolRefusal("The URL contains white space or control characters.")
    try:
        return checked(URL(written))
    except (ValueError, UnicodeError):
        raise ToolRefusal("The URL is malformed.") from None


def checked(url: URL) -> URL:
    """Returns the URL. Raises ``ToolRefusal`` if tools do not accept it."""
    try:
        host, port = url.host, url.port
    except ValueError:
        raise ToolRefusal("The URL's port is not a number below 65536.") from None
    if url.scheme not in ("http", "https"):
        raise ToolRefusal(f"Only http and https are supported, not {url.scheme or 'no scheme'}.")
    if url.user is not None or url.password is not None:
        raise ToolRefusal(
            "The URL contains a user name or password, which is never sent. Remove it."
        )
    if not host or "%" in host or len(host) > 253:
        raise ToolRefusal("The URL has no valid host.")
    if not port:
        raise ToolRefusal("The URL's port is not valid.")
    return url.with_fragment(None)


_HINT = "The web tools reach it only when tools.web.allowed_private_hosts in crush.json lists it."


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str = ""  # empty: a network
    network: Network | None = None
    port: int | None = None  # none: every port

    def fits(self, host: str, port: int, address: Address) -> bool:
        if self.port is not None and self.port != port:
            return False
        if self.network is not None:
            inner = unwrapped(address)
            return inner.version == self.network.version and inner in self.network
        if self.name == "*":
            return True
        if self.name.startswith("*."):
            return host.endswith(self.name[1:])
        return host == self.name


class Access:
    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._entries = [entry for written in allowed if (entry := _entry(written)) is not None]

    def check(self, host: str, port: int, addresses: Sequence[Address]) -> None:
        """Raises ``ToolRefusal`` unless all addresses of the host may be reached."""
        name = host.rstrip(".").lower()
        for address in addresses:
            if is_public(address) or any(e.fits(name, port, address) for e in self._entries):
                continue
            if literal(name) is not None:
                raise ToolRefusal(f"{host} is an address of a private network. {_HINT}")
            # Do not report the address: name server responses could map a private network.
            raise ToolRefusal(f"{host} has an address of a private network. {_HINT}")


def refuse_private(url: URL, allowed: Iterable[str]) -> None:
    """Raises ``ToolRefusal`` for a literal private address, before the permission request.

    It looks no name up: that would send the model's text to a name server before a person
    allows it. Names are checked when a connection is opened.
    """
    host, port = url.host or "", url.port or 0
    Access(allowed).check(host, port, _written_out(host))


def _written_out(host: str) -> list[Address]:
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return [ip_address("127.0.0.1")]
    try:
        # This also parses the short forms (127.1, 0x7f000001) that a connection accepts.
        found = socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []
    return [ip_address(text) for text in dict.fromkeys(str(info[4][0]) for info in found)]


def _entry(written: str) -> _Entry | None:
    written = written.strip().lower()
    if not written:
        return None
    try:
        return _Entry(network=ip_network(written, strict=False))
    except ValueError:
        pass
    host, colon, number = written.rpartition(":")
    port: int | None = None
    if colon:
        if not (number.isascii() and number.isdigit()) or not host:
            return None
        port = int(number)
    else:
        host = written
    host = host.removeprefix("[").removesuffix("]").rstrip(".")
    try:
        return _Entry(network=ip_network(host), port=port)
    except ValueError:
        return _Entry(name=host, port=port) if host and "/" not in host else None


Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# In addition to ``is_global``, whose list is as old as the interpreter.
_NOT_PUBLIC: tuple[Network, ...] = tuple(
    ip_network(written)
    for written in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared between a provider and its customers (CGNAT)
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local; clouds serve credentials here
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",  # multicast, reserved, broadcast
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",
        "2002::/16",  # 6to4: leads into any IPv4 network, and is obsolete
        "3fff::/20",
        "5f00::/16",
    )
)
_UNICAST = IPv6Network("2000::/3")  # the IPv6 addresses allocated for public use
_NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return False
    inner = unwrapped(address)
    if isinstance(inner, IPv6Address) and inner not in _UNICAST:
        return False
    if any(inner.version == network.version and inner in network for network in _NOT_PUBLIC):
        return False
    return inner.is_global and not inner.is_multicast


def unwrapped(address: Address) -> Address:
    """Returns the address at which packets arrive."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(address.packed[-4:])
    return address


def literal(host: str) -> Address | None:
    """Parses a host that is an address; ``None`` for a name."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None
