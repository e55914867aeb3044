"""Servers of both eras of the protocol: the handshake of 2025 and the stateless one of 2026."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.config.settings import McpSettings
from agents.tools.contract import ToolRefusal
from agents.tools.mcp.contract import McpStatus
from agents.tools.mcp.host import McpHost
from agents.tools.mcp.tools import tools_of
from tests.acceptance.mcp.servers import Distant
from tests.doubles.mcp_backing import MemoryBacking
from tests.doubles.tool_context import make_tool_doubles
from tests.integration.mcp.conftest import QUICK, MakeHost, double, script

ERAS = {"2026-07-28": (), "2025-11-25": ("--handshake",)}

# A server of 2026 that asks before it answers, and leaves out what kind of result its last one is.
ASKING = """
import json, sys
def say(number, **result): print(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}), flush=True)
COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
QUESTION = {"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema":
    {"type": "object", "properties": {"sure": {"type": "boolean"}}}}}
for line in sys.stdin:
    message = json.loads(line)
    method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method == "server/discover":
        say(number, supportedVersions=["2026-07-28"], capabilities={"tools": {}}, **COMPLETE)
    elif method == "tools/list":
        say(number, tools=[{"name": "t", "inputSchema": {"type": "object"}}], **COMPLETE)
    elif method == "tools/call" and "inputResponses" not in params:
        say(number, resultType="input_required", inputRequests={"q": QUESTION}, requestState="s1")
    elif method == "tools/call":
        told = [params["inputResponses"], params["requestState"]]
        say(number, content=[{"type": "text", "text": json.dumps(told)}])
"""
# A server of 2026 that wants arguments in headers, of which its first list said nothing.
MOVED = """
import json, sys
def say(number, **more): print(json.dumps({"jsonrpc": "2.0", "id": number, **more}), flush=True)
COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
lists = 0
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "server/discover":
        say(number, result={"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **COMPLETE})
    elif method == "tools/list":
        lists += 1
        tool = {"name": "t", "description": f"list {lists}", "inputSchema": {"type": "object"}}
        say(number, result={"tools": [tool], **COMPLETE})
    elif method == "tools/call" and lists == 1:
        say(number, error={"code": -32020, "message": "Header mismatch"})
    elif method == "tools/call":
        say(number, result={"content": [{"type": "text", "text": "done"}], "resultType": "complete"})
"""
# A server of 2026 that ends the first stream of changes, and names its tool after the streams it saw.
BREAKING = """
import json, sys
def say(**more): print(json.dumps({"jsonrpc": "2.0", **more}), flush=True)
COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
CAN = {"tools": {"listChanged": True}}
streams = 0
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "server/discover":
        say(id=number, result={"supportedVersions": ["2026-07-28"], "capabilities": CAN, **COMPLETE})
    elif method == "tools/list":
        tool = {"name": f"t{streams}", "inputSchema": {"type": "object"}}
        say(id=number, result={"tools": [tool], **COMPLETE})
    elif method == "subscriptions/listen":
        streams += 1
        say(method="notifications/subscriptions/acknowledged", params={
            "_meta": {"io.modelcontextprotocol/subscriptionId": number},
            "notifications": {"toolsListChanged": True}})
        if streams == 1: say(id=number, result={"resultType": "complete"})
"""
# A server of 2026 that answers its first request too late, so it refuses the handshake.
LATE = """
import json, sys
def say(number, **more): print(json.dumps({"jsonrpc": "2.0", "id": number, **more}), flush=True)
COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
SUPPORTED = {"requested": "x", "supported": ["2026-07-28"]}
can_answer = False
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "server/discover" and can_answer:
        say(number, result={"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **COMPLETE})
    elif method == "initialize":
        can_answer = True
        say(number, error={"code": -32022, "message": "Unsupported version", "data": SUPPORTED})
    elif method == "tools/list":
        say(number, result={"tools": [{"name": "t", "inputSchema": {"type": "object"}}], **COMPLETE})
"""
# A server that supports only these versions, and would answer the handshake.
ONLY = """
import json, sys
def say(number, **more): print(json.dumps({"jsonrpc": "2.0", "id": number, **more}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "server/discover":
        data = {"requested": "2026-07-28", "supported": %s}
        say(number, error={"code": -32022, "message": "Unsupported version", "data": data})
    elif method == "initialize":
        say(number, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "x", "version": "1"}})
    elif method == "tools/list":
        say(number, result={"tools": [{"name": "t", "inputSchema": {"type": "object"}}]})
"""
# Servers of 2025 that know no request before the handshake.
OLD = """
import json, sys
def say(number, **result): print(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        say(number, protocolVersion="2025-06-18", capabilities={"tools": {}},
            serverInfo={"name": "x", "version": "1"})
    elif method == "tools/list":
        say(number, tools=[{"name": "t", "inputSchema": {"type": "object"}}])
    elif method == "server/discover": %s
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., McpSettings]]:
    """`start("http", "--handshake")`: the settings of a running server, ended after the test."""
    made: list[Distant] = []

    def begin(kind: str, *args: str) -> McpSettings:
        if kind == "stdio":
            return double("s", "--more", *args, env={"MCP_NOTES": str(tmp_path / "notes")})
        notes = {"MCP_NOTES": str(tmp_path / "notes")}
        server = Distant(kind, tmp_path, "--more", *args, env=notes)
        made.append(server)
        server.start()
        return McpSettings("s", server.entry["type"], url=server.url)

    def stop() -> None:
        for server in made:
            server.kill9()

    begin.stop = stop
    yield begin
    stop()


@pytest.fixture(params=[(kind, era) for kind in ("stdio", "http") for era in ERAS])
def server_of_an_era(
    request: pytest.FixtureRequest, start: Callable[..., McpSettings]
) -> tuple[McpSettings, str]:
    kind, era = request.param
    return start(kind, *ERAS[era]), era


async def run(host: McpHost, name: str, tmp_path: Path, **arguments: Any) -> str:
    tool = (await tools_of(host, "w"))[name]
    return str((await tool.run(tool.parse(arguments), make_tool_doubles(tmp_path).context)).content)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.02)


async def test_a_server_is_used_in_the_newest_era_that_it_speaks(
    server_of_an_era: tuple[McpSettings, str],
    make_host: MakeHost,
    backing: MemoryBacking,
    tmp_path: Path,
) -> None:
    settings, era = server_of_an_era
    host = make_host(settings)
    assert await run(host, "mcp_s_revision", tmp_path) == era
    assert await run(host, "mcp_s_add", tmp_path, first=20, second=22) == "42"
    view = await backing.until_state(McpStatus.CONNECTED)
    assert (view.tool_count, view.prompt_count, view.resource_count) == (14, 1, 2)
    server = (await host.servers_of("w"))["s"]
    assert await server.get_prompt("greet", {"name": "Ada"}) == "Say hello to Ada, being happy."
    (content,) = await server.read_resource("note://one")
    assert content.text == "the first note"


async def test_a_changed_list_reaches_clients_and_the_next_prompt_in_each_era(
    server_of_an_era: tuple[McpSettings, str],
    make_host: MakeHost,
    backing: MemoryBacking,
    tmp_path: Path,
) -> None:
    settings, _ = server_of_an_era
    host = make_host(settings)
    await run(host, "mcp_s_add", tmp_path, first=1, second=1)
    for count, name in enumerate(("first_fresh", "second_fresh"), start=15):
        await run(host, "mcp_s_learn", tmp_path, tool=name)
        await backing.until(lambda view, count=count: view.tool_count == count)
        assert await run(host, f"mcp_s_{name}", tmp_path) == "fresh"


async def test_a_cancelled_call_ends_at_the_server_in_each_era(
    server_of_an_era: tuple[McpSettings, str], make_host: MakeHost, tmp_path: Path
) -> None:
    settings, _ = server_of_an_era
    host, notes = make_host(settings), tmp_path / "notes"
    calling = asyncio.create_task(run(host, "mcp_s_wait", tmp_path, seconds=600))
    await until(lambda: notes.exists() and "waiting" in notes.read_text())
    calling.cancel()
    await until(lambda: "cancelled" in notes.read_text())
    assert await run(host, "mcp_s_add", tmp_path, first=1, second=1) == "2"
    assert notes.read_text().count("started") == 1


async def test_progress_and_questions_of_a_tool_change_nothing_for_other_calls(
    server_of_an_era: tuple[McpSettings, str], make_host: MakeHost, tmp_path: Path
) -> None:
    settings, _ = server_of_an_era
    host = make_host(settings)
    assert await run(host, "mcp_s_slowly", tmp_path) == "at last"
    try:
        told = await run(host, "mcp_s_paint", tmp_path)
    except ToolRefusal as refusal:
        told = str(refusal)
    assert "painted" not in told
    assert "elicitation" in told.lower()
    assert await run(host, "mcp_s_add", tmp_path, first=1, second=1) == "2"


async def test_sse_is_spoken_in_the_era_of_the_handshake(
    start: Callable[..., McpSettings], make_host: MakeHost, tmp_path: Path
) -> None:
    host = make_host(start("sse"))
    assert await run(host, "mcp_s_revision", tmp_path) == "2025-11-25"


async def test_a_question_before_an_answer_is_declined(make_host: MakeHost, tmp_path: Path) -> None:
    host = make_host(script(ASKING))
    answers, state = json.loads(await run(host, "mcp_s_t", tmp_path))
    assert answers == {"q": {"action": "decline"}}
    assert state == "s1"


async def test_a_server_that_never_stops_asking_is_refused(
    make_host: MakeHost, tmp_path: Path
) -> None:
    host = make_host(script(ASKING.replace('and "inputResponses" not in params', "")))
    with pytest.raises(ToolRefusal, match="more input after each of 10 answers"):
        await run(host, "mcp_s_t", tmp_path)


async def test_a_call_that_lacks_headers_is_sent_again_after_a_look_at_the_list(
    make_host: MakeHost, tmp_path: Path
) -> None:
    host = make_host(script(MOVED))
    assert await run(host, "mcp_s_t", tmp_path) == "done"
    server = (await host.servers_of("w"))["s"]
    await until(lambda: server.offer.tools[0].description != "list 1")


async def test_a_stream_of_changes_that_ends_is_opened_again_and_the_lists_are_read_again(
    make_host: MakeHost,
) -> None:
    host = make_host(script(BREAKING))
    assert list(await tools_of(host, "w")) == ["mcp_s_t0"]
    server = (await host.servers_of("w"))["s"]
    await until(lambda: server.offer.tools[0].name == "t2")


@pytest.mark.parametrize("era", ERAS)
async def test_a_distant_server_that_goes_away_is_noticed_without_a_call(
    era: str, start: Callable[..., McpSettings], make_host: MakeHost, backing: MemoryBacking
) -> None:
    host = make_host(start("http", *ERAS[era]), timeouts=replace(QUICK, ping_seconds=0.1))
    await tools_of(host, "w")
    await backing.until_state(McpStatus.CONNECTED)
    await asyncio.sleep(0.5)  # several pings: they keep a server that is there
    assert [view.state for _, view in backing.told] == [McpStatus.STARTING, McpStatus.CONNECTED]
    start.stop()
    await backing.until_state(McpStatus.ERROR)


@pytest.mark.parametrize("how", ["pass", "sys.exit('expected initialize')"])
async def test_an_old_server_that_does_not_answer_before_the_handshake_is_connected(
    how: str, make_host: MakeHost, backing: MemoryBacking
) -> None:
    host = make_host(script(OLD % how))
    assert list(await tools_of(host, "w")) == ["mcp_s_t"]
    assert [view.state for _, view in backing.told] == [McpStatus.STARTING, McpStatus.CONNECTED]


async def test_a_server_that_refuses_the_handshake_after_a_late_answer_is_connected(
    make_host: MakeHost, backing: MemoryBacking
) -> None:
    host = make_host(script(LATE))
    assert list(await tools_of(host, "w")) == ["mcp_s_t"]
    assert [view.state for _, view in backing.told] == [McpStatus.STARTING, McpStatus.CONNECTED]


@pytest.mark.parametrize("supported", ['["2025-06-18"]', '["2025-06-18", "2099-01-01"]', '"x"'])
async def test_the_handshake_follows_unless_the_server_supports_only_newer_versions(
    supported: str, make_host: MakeHost
) -> None:
    host = make_host(script(ONLY % supported))
    assert list(await tools_of(host, "w")) == ["mcp_s_t"]


async def test_a_server_that_supports_only_newer_versions_is_refused(
    make_host: MakeHost, backing: MemoryBacking
) -> None:
    host = make_host(script(ONLY % '["2099-01-01"]'))
    assert list(await tools_of(host, "w")) == []
    view = await backing.until_state(McpStatus.ERROR)
    assert "version of the protocol that this server does not support" in view.error
