"""No web tool reaches a private network, by whatever name, redirect or proxy."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from agents.tools.contract import Tool, ToolRefusal
from agents.tools.web.access import Access, Address
from agents.tools.web.agentic_fetch import AgenticFetch
from agents.tools.web.client import Request, Web, response_to
from agents.tools.web.download import Download
from agents.tools.web.fetch import Fetch
from agents.tools.web.web_fetch import WebFetch
from tests.doubles.tool_context import ToolDoubles, make_tool_doubles
from tests.doubles.web_site import Site, web_site
from tests.integration.tools.calling import call, required_permission
from tests.integration.tools.web.calling import allowed, fetch

PRIVATE = (
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "0.0.0.0",
    "localhost",
    "LOCALHOST",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[64:ff9b::127.0.0.1]",
    "169.254.169.254",
    "10.0.0.1",
    "100.64.0.1",
    "[fe80::1]",
    "[fd00::1]",
)
ASKING: list[tuple[Tool[Any], dict[str, Any]]] = [
    (Fetch(), {"format": "text"}),
    (Download(), {"file_path": "f"}),
    (AgenticFetch(), {"prompt": "What is there?"}),
]


@pytest.mark.parametrize("host", PRIVATE)
async def test_nobody_is_asked_for_what_would_be_refused(tmp_path: Path, host: str) -> None:
    doubles = make_tool_doubles(tmp_path)
    for tool, more in ASKING:
        with pytest.raises(ToolRefusal, match="private network"):
            await required_permission(tool, doubles, url=f"http://{host}:8080/", **more)


async def test_somebody_is_asked_for_what_may_be_reached(tmp_path: Path) -> None:
    doubles = allowed(make_tool_doubles(tmp_path), "127.0.0.1", "localhost")
    for tool, more in ASKING:
        # The last one has no address: a look-up before the answer would tell others of it.
        for host in ("127.0.0.1", "localhost", "93.184.216.34", "name.invalid"):
            assert (
                await required_permission(tool, doubles, url=f"http://{host}:8080/", **more)
                is not None
            )


@pytest.mark.parametrize("host", PRIVATE)
async def test_it_reaches_nothing_private(tmp_path: Path, site: Site, host: str) -> None:
    doubles = make_tool_doubles(tmp_path)
    with pytest.raises(ToolRefusal, match="private network"):
        await fetch(doubles, f"http://{host}:{site.port}/text")
    with pytest.raises(ToolRefusal, match="private network"):
        await call(Download(), doubles, url=f"http://{host}:{site.port}/text", file_path="f")
    with pytest.raises(ToolRefusal, match="private network"):
        await call(WebFetch(), doubles, url=f"http://{host}:{site.port}/text")
    assert site.requests == []
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize("entry", ["127.0.0.1:{port}", "127.0.0.0/8", "127.0.0.1", "*"])
async def test_configuration_lets_through(tmp_path: Path, site: Site, entry: str) -> None:
    doubles = allowed(make_tool_doubles(tmp_path), entry.format(port=site.port))
    assert "plain" in await fetch(doubles, f"{site.url}/text")


async def test_configuration_lets_a_name_through(tmp_path: Path, site: Site) -> None:
    url = f"http://localhost:{site.port}/text"
    assert "plain" in await fetch(allowed(make_tool_doubles(tmp_path), "localhost"), url)
    with pytest.raises(ToolRefusal, match="private"):
        await fetch(allowed(make_tool_doubles(tmp_path), f"localhost:{site.port + 1}"), url)


async def test_a_redirect_to_a_private_address_is_refused(doubles: ToolDoubles, site: Site) -> None:
    async with web_site() as inner:  # another port, which is not listed
        with pytest.raises(ToolRefusal, match="private network"):
            await fetch(doubles, f"{site.url}/go?to={inner.url}/text")
        with pytest.raises(ToolRefusal, match="private network"):
            await fetch(doubles, f"{site.url}/go?to=//localhost:{inner.port}/text")
        assert inner.requests == []


class Names:
    """A name service that answers as it is told, one answer after the other."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.lookups = 0

    async def __call__(self, host: str, port: int) -> list[Address]:
        self.lookups += 1
        if not self.answers:
            raise OSError("unknown")
        return [ip_address(written) for written in self.answers.pop(0)]


async def body_of(web: Web, url: str) -> bytes:
    async with response_to(web, Request(url)) as answer:
        return (await answer.read(1_000_000))[0]


async def test_a_name_is_looked_up_once_and_connected_to_there(site: Site) -> None:
    """What a second answer would say does not matter: rebinding has no second question."""
    names = Names(["127.0.0.1"], ["192.0.2.1"])
    web = Web(Access(["127.0.0.1"]), lookup=names)
    assert await body_of(web, f"http://pages.test:{site.port}/text") == b"plain <b>words</b>\n"
    assert names.lookups == 1
    assert site.requests[0].headers["Host"] == f"pages.test:{site.port}"


@pytest.mark.parametrize("answers", [["10.0.0.7"], ["93.184.216.34", "10.0.0.7"], ["::1"]])
async def test_a_name_that_leads_into_a_private_network_is_refused(answers: list[str]) -> None:
    web = Web(Access(), lookup=Names(answers))
    with pytest.raises(ToolRefusal, match=r"pages\.test has an address of a private") as refusal:
        await body_of(web, "http://pages.test/")
    assert "10.0.0.7" not in str(refusal.value)


async def test_an_unknown_name_is_told() -> None:
    with pytest.raises(ToolRefusal, match="No address was found"):
        await body_of(Web(Access(), lookup=Names()), "http://pages.test/")


async def test_a_proxy_gets_what_its_own_names_lead_to(site: Site) -> None:
    """The site is asked for a whole URL, as a proxy is."""
    env = {"http_proxy": f"http://user:pw@127.0.0.1:{site.port}"}
    web = Web(Access(), env, lookup=Names())
    assert b"plain" in await body_of(web, "http://far.test/text")
    assert site.requests[0].headers["Host"] == "far.test"
    for answers in (["10.0.0.7"], ["127.0.0.1"]):
        with pytest.raises(ToolRefusal, match="private"):
            await body_of(Web(Access(), env, lookup=Names(answers)), "http://far.test/text")
    with pytest.raises(ToolRefusal, match="private"):
        await body_of(Web(Access(), env, lookup=Names()), "http://10.0.0.7/text")
    assert len(site.requests) == 1
    assert "pw" not in repr(web)


async def test_a_dead_proxy_s_account_is_not_told(unused_tcp_port: int) -> None:
    env = {"http_proxy": f"http://user:sesame@127.0.0.1:{unused_tcp_port}"}
    with pytest.raises(ToolRefusal) as refusal:
        await body_of(Web(Access(), env, lookup=Names()), "http://far.test/text")
    assert "sesame" not in str(refusal.value)
