"""Finds a host's addresses, and connects to no others than those that were judged."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import ip_address

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override

from agents.tools.web.addresses import Address


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
