"""Servers run as programs that mean ill or are broken: bounded in size and time, and never in the way."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.tools.contract import ToolRefusal
from agents.tools.mcp import limits
from agents.tools.mcp.contract import McpChange, McpFailed, McpStatus
from agents.tools.mcp.host import McpHost
from agents.tools.mcp.tools import tools_of
from tests.doubles.mcp_backing import MemoryBacking
from tests.doubles.tool_context import make_tool_doubles
from tests.integration.mcp.conftest import QUICK, MakeHost, double, script

# Gives every request the same answer.
STUBBORN = """
import json, sys
for line in sys.stdin:
    number = json.loads(line).get("id")
    print(json.dumps({"jsonrpc": "2.0", "id": number, "result": %s}), flush=True)
"""
INITIALIZED = """{"protocolVersion": "1999", "capabilities": {},
    "serverInfo": {"name": "x", "version": "1"}}"""
# Answers the handshake and every list, then does what the test says.
POLITE = """
import json, sys
def say(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
LISTS = {"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources"}
TOOL = {"name": "t", "inputSchema": {"type": "object"}}
def listed(method): return [TOOL] if method == "tools/list" else []
def more(message): pass
CAPABILITIES = {"tools": {"listChanged": True}, "prompts": {}, "resources": {}}
%s
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "server/discover":
        say(id=number, error={"code": -32601, "message": "Method not found"})
    elif method == "initialize":
        say(id=number, result={"protocolVersion": "2025-06-18", "capabilities": CAPABILITIES,
            "serverInfo": {"name": "x", "version": "1"}})
    elif method in LISTS:
        say(id=number, result={LISTS[method]: listed(method)})
    more(message)
"""


async def run(host: McpHost, name: str, tmp_path: Path, **arguments: Any) -> str:
    tool = (await tools_of(host, "w"))[name]
    return str((await tool.run(tool.parse(arguments), make_tool_doubles(tmp_path).context)).content)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import sys; sys.exit('nothing here')", "exit code 1: nothing here"),
        ("while True: print('x' * 100000, flush=True)", "did not start within"),
        ("import sys\nwhile True: sys.stdout.write('x' * 1000000)", "more than 16,777,216 bytes"),
        ("import sys\nwhile True: sys.stderr.write('noise ' * 1000)", "did not start within"),
        ("import os, time\nos.close(1)\ntime.sleep(60)", "closed its output"),
        ('print(\'{"jsonrpc": "2.0", "id": 0, "result": 3}\', flush=True)', "exit code 0"),
        (STUBBORN % '{"a": 1}', "does not follow the protocol"),
        (STUBBORN % INITIALIZED, "version of the protocol"),
    ],
)
async def test_a_server_that_cannot_start_says_why_and_is_left_alone_in_the_end(
    source: str, told: str, make_host: MakeHost, backing: MemoryBacking
) -> None:
    host = make_host(
        script(source, timeout_seconds=1.5 if "did not start" in told else 20),
        # Whoever lives on is not waited for long; whoever ends has its time on a slow machine.
        timeouts=replace(QUICK, stderr_seconds=0.3) if "stopped" in told else QUICK,
    )
    began = time.monotonic()
    assert await tools_of(host, "w") == {}
    view = await backing.until_state(McpStatus.ERROR)
    assert told in view.error
    assert len(view.error) <= limits.MAX_ERROR_CHARS + 10
    assert time.monotonic() - began < 90
    # Nobody waits for it a second time.
    began = time.monotonic()
    assert await tools_of(host, "w") == {}
    assert time.monotonic() - began < 10


async def test_a_server_left_alone_is_tried_again_when_somebody_could_use_it(
    make_host: MakeHost, backing: MemoryBacking, tmp_path: Path
) -> None:
    tried = tmp_path / "tried"
    host = make_host(
        script(f"open({str(tried)!r}, 'a').write('x'); import sys; sys.exit(1)", timeout_seconds=5)
    )
    await tools_of(host, "w")

    def tries() -> int:
        return len(tried.read_text())

    async def until(count: int) -> None:
        async with asyncio.timeout(60):
            while tries() < count:
                await asyncio.sleep(0.02)

    # Three times, and once more without a question that older servers end at.
    await until(4)
    server = (await host.servers_of("w"))["s"]
    async with asyncio.timeout(60):
        while server.is_offering:  # its last end is not noted yet
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.5)
    assert tries() == 4
    await tools_of(host, "w")
    await until(5)
    with pytest.raises(McpFailed, match="exit code 1"):
        await server.refresh(McpChange.TOOLS)
    assert tries() > 5


async def test_a_call_without_an_answer_ends_in_time_and_is_taken_back(
    make_host: MakeHost, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    body = f"""
asked = []
def more(message):
    if message.get("method") == "notifications/cancelled":
        open({str(notes)!r}, "w").write(str(message["params"]["requestId"] in asked))
    if message.get("method") == "tools/call":
        asked.append(message["id"])
        if len(asked) > 1: say(id=message["id"], result={{"content": []}})
"""
    host = make_host(script(POLITE % body, timeout_seconds=6))
    with pytest.raises(ToolRefusal, match="did not answer within 6 seconds"):
        await run(host, "mcp_s_t", tmp_path)
    async with asyncio.timeout(60):
        while not notes.exists() or not notes.read_text():
            await asyncio.sleep(0.02)
    assert notes.read_text() == "True"
    assert await run(host, "mcp_s_t", tmp_path) == "no output"


async def test_a_list_without_an_end_is_cut(
    make_host: MakeHost, backing: MemoryBacking, tmp_path: Path
) -> None:
    body = """
def listed(method):
    names = range(1000)
    if method == "tools/list": return [{**TOOL, "name": f"t{n}"} for n in names]
    if method == "prompts/list": return [{"name": f"p{n}"} for n in names]
    return [{"name": "r", "uri": f"note://{n}"} for n in range(5000)]
"""
    host = make_host(script(POLITE % body))
    await tools_of(host, "w")
    view = await backing.until_state(McpStatus.CONNECTED)
    counts = (view.tool_count, view.prompt_count, view.resource_count)
    assert counts == (limits.MAX_TOOLS, limits.MAX_PROMPTS, limits.MAX_RESOURCES)


async def test_a_server_that_promises_prompts_and_knows_none_starts_all_the_same(
    make_host: MakeHost, backing: MemoryBacking
) -> None:
    body = """
LISTS = {"tools/list": "tools"}
def more(message):
    if message.get("method") in ("prompts/list", "resources/list"):
        say(id=message["id"], error={"code": -32601, "message": "Method not found"})
"""
    host = make_host(script(POLITE % body))
    assert list(await tools_of(host, "w")) == ["mcp_s_t"]
    assert (await backing.until_state(McpStatus.CONNECTED)).prompt_count == 0


async def test_the_tools_of_one_that_keeps_crashing_are_offered_no_more(
    make_host: MakeHost, backing: MemoryBacking, tmp_path: Path
) -> None:
    first = tmp_path / "first"
    body = f"""
import os
if os.path.exists({str(first)!r}): sys.exit("never again")
def more(message):
    if message.get("method") == "tools/call": open({str(first)!r}, "w").close(); os._exit(1)
"""
    host = make_host(script(POLITE % body))
    assert list(await tools_of(host, "w")) == ["mcp_s_t"]
    with pytest.raises(ToolRefusal, match="exit code 1"):
        await run(host, "mcp_s_t", tmp_path)
    async with asyncio.timeout(60):
        while await tools_of(host, "w"):
            await asyncio.sleep(0.02)
    assert "never again" in (await host.servers_of("w"))["s"].view.error


async def test_pages_that_go_round_in_circles_end(
    make_host: MakeHost, backing: MemoryBacking
) -> None:
    body = """
LISTS = {"prompts/list": "prompts", "resources/list": "resources"}
def more(message):
    if message.get("method") == "tools/list":
        say(id=message["id"], result={"tools": [TOOL], "nextCursor": "again"})
"""
    host = make_host(script(POLITE % body))
    await tools_of(host, "w")
    view = await backing.until_state(McpStatus.CONNECTED)
    assert view.tool_count == limits.MAX_PAGES


async def test_a_server_that_says_all_the_time_that_it_changed_costs_a_reading_a_moment(
    make_host: MakeHost, backing: MemoryBacking, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    body = f"""
def more(message):
    if message.get("method") == "tools/list":
        open({str(asked)!r}, "a").write("x")
    for _ in range(50): say(method="notifications/tools/list_changed")
"""
    host = make_host(script(POLITE % body))
    await tools_of(host, "w")
    await backing.until_state(McpStatus.CONNECTED)
    began = time.monotonic()
    await asyncio.sleep(1)
    readings = len(asked.read_text())
    assert readings < 10 * (time.monotonic() - began) + 10  # at most ten in a second
    # The list is the same all the time: clients are not told again and again.
    assert len(backing.told) == 2


async def test_questions_of_a_server_to_us_are_refused_and_change_nothing(
    make_host: MakeHost, backing: MemoryBacking, tmp_path: Path
) -> None:
    answers = tmp_path / "answers"
    body = f"""
def more(message):
    if message.get("method") == "notifications/initialized":
        say(id=900, method="sampling/createMessage", params={{"messages": [], "maxTokens": 1}})
        say(id=901, method="roots/list")
        say(id=902, method="no/such/thing")
        say(id=903, result={{"unasked": True}})
        print("[1, 2", flush=True)
    if message.get("id", 0) and message["id"] >= 900:
        open({str(answers)!r}, "a").write(json.dumps(message) + "\\n")
"""
    host = make_host(script(POLITE % body))
    await tools_of(host, "w")
    await backing.until_state(McpStatus.CONNECTED)
    async with asyncio.timeout(60):
        while not answers.exists() or answers.read_text().count("\n") < 3:
            await asyncio.sleep(0.02)
    text = answers.read_text()
    assert "Sampling not supported" in text
    assert tmp_path.as_uri() in text  # a server on this machine may know where it works
    assert "Method not found" in text


async def test_closing_in_the_middle_of_a_start_and_of_a_call_ends_both(
    make_host: MakeHost, backing: MemoryBacking, tmp_path: Path
) -> None:
    host = make_host(double("good"), double("hangs", "--hang", timeout_seconds=60))
    await host.open("w")
    await backing.until(lambda view: view.name == "good" and view.state is McpStatus.CONNECTED)
    server = (await host.servers_of("w"))["good"]
    calling = asyncio.create_task(server.call_tool("wait", {"seconds": 60}, sees_images=False))
    await asyncio.sleep(0.2)
    began = time.monotonic()
    await host.close("w")
    assert time.monotonic() - began < 30
    with pytest.raises(McpFailed):
        await asyncio.wait_for(calling, 60)
    assert host.hosted() == frozenset()
    assert backing.dropped == [None]
    await host.close("w")
