"""A call that needs more rights than the login has: refused alone, and possible after another login."""

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from agents.config.settings import McpSettings
from agents.tools.mcp.contract import McpFailed, McpStatus
from agents.tools.mcp.server import McpServerClient
from tests.acceptance.harness.environment import ROOT
from tests.acceptance.mcp.servers import Distant
from tests.doubles.mcp_backing import MemoryBacking
from tests.doubles.mcp_person import Person
from tests.integration.mcp.conftest import MakeHost

SCRIPT = str(ROOT / "tests/doubles/mcp_oauth.py")
MORE = "The server requires more rights: log in to it again."


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Callable[..., McpSettings]]:
    made: list[Distant] = []

    def start(*args: str) -> McpSettings:
        server = Distant("oauth", tmp_path, "--wider", *args, script=SCRIPT)
        made.append(server)
        server.start()
        return McpSettings("s", "http", url=server.url)

    yield start
    for server in made:
        server.kill9()


async def failing(server: McpServerClient) -> str:
    return (await server.call_tool("fail", {"why": "because"}, sees_images=False)).content


async def adding(server: McpServerClient) -> str:
    return (await server.call_tool("add", {"first": 1, "second": 1}, sees_images=False)).content


def scopes(address: str) -> set[str]:
    return set(parse_qs(urlsplit(address).query)["scope"][0].split())


async def test_a_refused_call_fails_alone_and_the_next_login_asks_for_its_rights_too(
    guarded: Callable[..., McpSettings], make_host: MakeHost, backing: MemoryBacking
) -> None:
    host = make_host(guarded())
    server = (await host.settled("w"))["s"]
    person = Person(server, backing)
    await person.log_in()
    seen = len(backing.told)
    with pytest.raises(McpFailed, match=MORE):
        await failing(server)
    assert await adding(server) == "2"
    assert backing.told[seen:] == []  # the server stayed connected
    await person.log_in()
    assert "because" in await failing(server)
    first, second = person.visited
    assert scopes(first) == {"use"}
    assert scopes(second) == {"use", "more"}
    states = [view.state for _, view in backing.told[seen:]]
    assert McpStatus.ERROR not in states


async def test_a_login_that_does_not_give_the_rights_ends(
    guarded: Callable[..., McpSettings], make_host: MakeHost, backing: MemoryBacking
) -> None:
    host = make_host(guarded("--deny"))
    server = (await host.settled("w"))["s"]
    person = Person(server, backing)
    await person.log_in()
    for _ in range(2):
        with pytest.raises(McpFailed, match=MORE):
            await failing(server)
        await person.log_in()
    assert len(person.visited) == 3
    assert await adding(server) == "2"
