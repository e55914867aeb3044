"""Who may be reached: the public web, and of other networks what configuration lists.

Pure. The list holds ``host``, ``host:port``, ``*.domain``, an address, a network
(``10.0.0.0/8``) or ``*``. An entry that cannot be read allows nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from agents.tools.contract import ToolRefusal
from agents.tools.web.addresses import Address, Network, is_public, literal, unwrapped

if TYPE_CHECKING:
    from yarl import URL

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
        """Raises ``ToolRefusal`` unless every address that the host has may be reached."""
        name = host.rstrip(".").lower()
        for address in addresses:
            if is_public(address) or any(e.fits(name, port, address) for e in self._entries):
                continue
            if literal(name) is not None:
                raise ToolRefusal(f"{host} is an address of a private network. {_HINT}")
            # The address itself is not told: a name server's answer could map a network.
            raise ToolRefusal(f"{host} leads into a private network. {_HINT}")


def refuse_private(url: URL, allowed: Iterable[str]) -> None:
    """Before anybody is asked for leave: raises ``ToolRefusal`` for an address that is written out.

    No name is looked up: a look-up would tell a name server what the model wrote, before a
    person allowed it. Names are judged when they are connected to.
    """
    host, port = url.host or "", url.port or 0
    Access(allowed).check(host, port, _written_out(host))


def _written_out(host: str) -> list[Address]:
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return [ip_address("127.0.0.1")]
    try:
        # Also the short forms (127.1, 0x7f000001) that a connection would accept.
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
