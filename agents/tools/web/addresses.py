"""Which network addresses are the public web's, and which belong to somebody's own network.

Pure. An address that carries another one inside (IPv4-mapped, NAT64) is judged by
the one inside, because that is where a packet to it arrives.
"""

from __future__ import annotations

from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# Beside what ``is_global`` knows: its list is as old as the interpreter.
_NOT_PUBLIC: tuple[Network, ...] = tuple(
    ip_network(written)
    for written in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared between a provider and its customers (CGNAT)
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local; clouds answer with credentials here
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
        "2002::/16",  # 6to4: leads into any IPv4 network, and nobody needs it any more
        "3fff::/20",
        "5f00::/16",
    )
)
_UNICAST = IPv6Network("2000::/3")  # all of IPv6 that is given out for the public web
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
    """Where a packet to it arrives."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(address.packed[-4:])
    return address


def literal(host: str) -> Address | None:
    """The address that is written out as a host; ``None`` for a name."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None
