"""Who is the owner of the server, by the process at the other end and the headers."""

import ipaddress
import os
from pathlib import Path
from typing import Any

import pytest

from crushsite.asgi.identify import PEER, Identification
from crushsite.asgi.peer import Peer
from workspaces.access import ANONYMOUS, OWNER

MINE = os.geteuid()


async def caller(peer: Peer | None, *headers: tuple[bytes, bytes]) -> Any:
    scope = {"type": "http", "headers": list(headers), "extensions": {PEER: {"peer": peer}}}
    return await Identification(servers=list, folder=Path()).caller_of(scope)


@pytest.mark.parametrize("peer", [Peer(MINE, pid=1), Peer(MINE, inode=1)])
async def test_a_process_of_the_servers_user_is_the_owner(peer: Peer) -> None:
    assert (await caller(peer, (b"host", b"127.0.0.1"), (b"user-agent", b"x"))).identity is OWNER


@pytest.mark.parametrize("peer", [None, Peer(MINE + 1, pid=1), Peer(MINE + 1, inode=1)])
async def test_any_other_process_is_nobody(peer: Peer | None) -> None:
    assert (await caller(peer)).identity is ANONYMOUS


@pytest.mark.parametrize(
    "name",
    [
        b"origin",
        b"sec-fetch-site",
        b"forwarded",
        b"via",
        b"x-forwarded-for",
        b"x-forwarded-proto",
        b"x-forwarded-anything",
    ],
)
async def test_browsers_and_proxies_are_never_the_owner(name: bytes) -> None:
    assert (await caller(Peer(MINE, pid=1), (b"host", b"x"), (name, b""))).identity is ANONYMOUS


async def test_a_server_that_names_no_addresses_knows_nobody() -> None:
    identification = Identification(servers=list, folder=Path())
    for ends in ({}, {"client": None, "server": ("/tmp/socket", None)}, {"client": ("x", 1)}):
        scope: dict[str, Any] = {"type": "http", "headers": [], **ends}
        assert (await identification.caller_of(scope)).identity is ANONYMOUS


async def address(client: Any, *forwarded: bytes, proxies: str = "") -> str:
    networks = [ipaddress.ip_network(one) for one in proxies.split(",") if one]
    headers = [(b"x-forwarded-for", value) for value in forwarded]
    scope = {"type": "http", "headers": headers, "client": client}
    return (
        await Identification(servers=list, folder=Path(), proxies=networks).caller_of(scope)
    ).address


async def test_the_address_is_the_clients() -> None:
    assert await address(("192.0.2.7", 1)) == "192.0.2.7"
    assert await address(None) == "unix"
    assert await address(("", None)) == "unix"


async def test_a_forwarded_address_is_believed_of_declared_proxies_only() -> None:
    proxy, client = ("10.0.0.1", 1), b"192.0.2.7"
    assert await address(proxy, client) == "10.0.0.1"
    assert await address(proxy, client, proxies="10.0.0.0/8") == "192.0.2.7"
    assert await address(proxy, client, proxies="10.0.0.2/32") == "10.0.0.1"
    assert await address(proxy, proxies="10.0.0.0/8") == "10.0.0.1"


async def test_addresses_that_a_client_invents_are_not_believed() -> None:
    proxy = ("10.0.0.1", 1)
    sent = b"198.51.100.1, 192.0.2.7, 10.0.0.9"
    assert await address(proxy, sent, proxies="10.0.0.0/8") == "192.0.2.7"
    assert await address(proxy, b"198.51.100.1", b"192.0.2.7", proxies="10.0.0.0/8") == "192.0.2.7"
    assert await address(proxy, b"not an address", proxies="10.0.0.0/8") == "not an address"
    assert len(await address(proxy, b"x" * 1000, proxies="10.0.0.0/8")) == 100


async def test_behind_a_proxy_only_a_socket_file_makes_an_owner() -> None:
    for peer, expected in ((Peer(MINE, inode=1), ANONYMOUS), (Peer(MINE, pid=1), OWNER)):
        scope = {"type": "http", "headers": [], "extensions": {PEER: {"peer": peer}}}
        found = await Identification(servers=list, folder=Path(), has_proxy=True).caller_of(scope)
        assert found.identity is expected
