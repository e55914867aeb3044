"""MCP servers, real ones, through a running server: what clients see of them and models get of them."""

import asyncio
import base64
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import asked, call, eventually, results, run_call
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.processes import marked
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.mcp_servers import DOUBLE, Distant, on_stdio, states, until, until_state
from tests.acceptance.watching import LogWatch

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeDistant = Callable[..., Distant]

NEVER = "0001-01-01T00:00:00Z"
linux_only = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


@pytest.fixture
def distant(tmp_path: Path) -> Iterator[MakeDistant]:
    """`distant("http")`: a started server, ended after the test."""
    made: list[Distant] = []

    def make(kind: str, *args: str, **options: Any) -> Distant:
        server = Distant(kind, tmp_path, *args, **options)
        made.append(server)
        server.start()
        return server

    yield make
    for server in made:
        server.kill9()


@pytest.fixture
def hosting(kept_servers: Callable[[Shape], Server], request: pytest.FixtureRequest) -> Server:
    """The embedded server that tests share: it hosts by itself what a workspace names."""
    return kept_servers(Shape.EMBEDDED)


async def sit(
    server: Server, connect: Connect, path: Path, *, yolo: bool = True, **more: Any
) -> Seat:
    return await take_seat(connect(server), path, yolo=yolo, **more)


@pytest.mark.parametrize("kind", ["stdio", "http", "sse"])
async def test_a_server_of_each_kind_connects_and_its_tools_are_called(
    kind: str,
    shared_server: Server,
    connect: Connect,
    project: MakeProject,
    distant: MakeDistant,
    model: ScriptedModel,
) -> None:
    entry = on_stdio() if kind == "stdio" else distant(kind).entry
    seat = await sit(shared_server, connect, project(f"kind-{kind}", mcp={"s": entry}))
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    result = await run_call(seat, session, f"{mark} {call('mcp_s_add', first=20, second=22)}")
    assert result["content"] == "42"
    assert not result["is_error"]
    shown = (await states(seat))["s"]
    assert shown.pop("connected_at") > NEVER
    counts = {"tool_count": 11, "prompt_count": 1, "resource_count": 2}
    assert shown == {"name": "s", "state": "connected", **counts}
    # An event says the same.
    start = seat.stream.mark()
    await seat.workspace.call("POST", "/mcp/refresh-tools", {"name": "s"})
    told = await seat.stream.wait_for(
        lambda e: e.type == "mcp_event" and e.payload["type"] == "tools_list_changed", start=start
    )
    assert told.action == "updated"
    assert told.payload == {"type": "tools_list_changed", **shown}
    # The model is told each tool by a name that every provider takes, with the server's schema.
    number = next(entry["number"] for entry in model.served(mark) if not entry["title"])
    tools = {t["function"]["name"]: t["function"] for t in model.request(number)["body"]["tools"]}
    assert tools["mcp_s_add"]["description"] == "Adds two numbers."
    assert set(tools["mcp_s_add"]["parameters"]["properties"]) == {"first", "second"}
    assert "mcp_s_odd_name__" in tools
    assert (await run_call(seat, session, call("mcp_s_odd_name__")))["content"] == "odd"


# -- calling


async def test_a_call_is_asked_for_with_its_arguments_as_an_object(
    hosting: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("asked", mcp={"s": on_stdio()})
    seat = await sit(hosting, connect, path, yolo=False)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, call("mcp_s_add", first=1, second=2))
    request = await asked(seat, session)
    assert request["tool_name"] == "mcp_s_add"
    assert request["action"] == "execute"
    assert request["path"] == str(path)
    assert request["params"] == {"first": 1, "second": 2}
    await seat.workspace.grant(request)
    await seat.stream.run_complete(session)
    (result,) = results(await seat.workspace.messages(session))
    assert result["content"] == "3"


async def test_wrong_arguments_go_back_naming_the_field(
    hosting: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await sit(hosting, connect, project("wrong", mcp={"s": on_stdio()}))
    session = await seat.workspace.session()
    for arguments, told in [
        ({"first": "x", "second": 2}, "first: 'x' is not of type 'integer'"),
        ({"first": 1}, "'second' is a required property"),
    ]:
        result = await run_call(seat, session, call("mcp_s_add", **arguments))
        assert result["is_error"]
        assert result["content"] == told


async def test_results_of_every_kind_come_back_bounded(
    hosting: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await sit(hosting, connect, project("results", mcp={"s": on_stdio()}))
    session = await seat.workspace.session()
    parts = await run_call(seat, session, call("mcp_s_parts"))
    assert parts["content"] == "first\nembedded text\n[resource one: note://one]"
    failed = await run_call(seat, session, call("mcp_s_fail", why="because"))
    assert failed["is_error"]
    assert "because" in failed["content"]
    large = await run_call(seat, session, call("mcp_s_large", size=3_000_000))
    assert 90_000 < len(large["content"]) < 110_000
    assert "characters left out" in large["content"]
    # The model of these tests does not see images, and is told so.
    picture = await run_call(seat, session, call("mcp_s_picture"))
    assert "does not see images" in picture["content"]
    assert picture.get("data", "") == ""


async def test_a_model_that_sees_images_is_given_one(
    hosting: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("seeing", mcp={"s": on_stdio()})
    file = path / "crush.json"
    configuration = json.loads(file.read_text())
    for shown in configuration["providers"]["fake"]["models"]:
        shown["supports_attachments"] = True
    file.write_text(json.dumps(configuration))
    seat = await sit(hosting, connect, path)
    session = await seat.workspace.session()
    picture = await run_call(seat, session, call("mcp_s_picture"))
    assert picture["mime_type"] == "image/png"
    assert base64.b64decode(picture["data"]).startswith(b"\x89PNG")


async def test_a_cancelled_call_is_taken_back_at_the_server(
    hosting: Server, connect: Connect, project: MakeProject, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    seat = await sit(
        hosting,
        connect,
        project("cancel", mcp={"s": on_stdio(env={"MCP_NOTES": str(notes)})}),
    )
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, call("mcp_s_wait", seconds=600), "waits")
    await eventually(lambda: notes.exists() and "waiting" in notes.read_text(), "it is called")
    await seat.workspace.call("POST", f"/agent/sessions/{session}/cancel")
    complete = await seat.stream.run_complete(session, "waits")
    assert complete["cancelled"] is True
    await eventually(lambda: "cancelled" in notes.read_text(), "the server is told")
    # The connection lives on.
    result = await run_call(seat, session, call("mcp_s_add", first=1, second=1))
    assert result["content"] == "2"
    assert notes.read_text().count("started") == 1


async def test_the_environment_is_the_workspaces_and_the_servers_own(
    make_a_server: Callable[..., Server], connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(
        Shape.EMBEDDED, env={"CRUSH_SECRET_KEY": "k" * 60, "OF_THE_PROCESS": "visible"}
    )
    server.start()
    entry = on_stdio(env={"OWN": "$OF_CLIENT", "PLAIN": "value"})
    env = [f"PATH={os.environ['PATH']}", f"HOME={os.environ['HOME']}", "OF_CLIENT=given"]
    path = project("environment", mcp={"s": entry})
    seat = await sit(server, connect, path, env=env)
    session = await seat.workspace.session()
    for name, value in [
        ("OWN", "given"),
        ("PLAIN", "value"),
        ("OF_CLIENT", "given"),
        ("OF_THE_PROCESS", "(unset)"),
        ("CRUSH_SECRET_KEY", "(unset)"),
    ]:
        result = await run_call(seat, session, call("mcp_s_environment", variable=name))
        assert result["content"] == value, name
    # Without a client's environment it is the server's, without the server's secrets.
    bare = await sit(server, connect, project("bare", mcp={"s": on_stdio()}))
    session = await bare.workspace.session()
    for name, value in [("OF_THE_PROCESS", "visible"), ("CRUSH_SECRET_KEY", "(unset)")]:
        result = await run_call(bare, session, call("mcp_s_environment", variable=name))
        assert result["content"] == value, name


# -- servers that fail


async def test_a_crash_is_a_tools_error_and_the_server_comes_back(
    hosting: Server, connect: Connect, project: MakeProject
) -> None:
    log = LogWatch(hosting)
    entry = on_stdio(env={"DOUBLES_KEY": "s3cret-stderr-value"})
    seat = await sit(hosting, connect, project("crash", mcp={"s": entry}))
    session = await seat.workspace.session()
    crashed = await run_call(seat, session, call("mcp_s_crash"))
    assert crashed["is_error"]
    assert "ended with exit code 7" in crashed["content"]
    assert "about to crash with" in crashed["content"]
    told = await until_state(seat, "s", "error")
    assert "exit code 7" in told["error"]
    after = await run_call(seat, session, call("mcp_s_add", first=1, second=1))
    assert after["content"] == "2"
    state = (await states(seat))["s"]
    assert state["state"] == "connected"
    assert "error" not in state
    # What the server was given is in no answer, event or log.
    seen = json.dumps([event.payload for event in seat.stream.events]) + log.text()
    assert "s3cret-stderr-value" not in seen
    assert log.loud() == []


async def test_servers_that_cannot_run_never_stop_a_turn(
    hosting: Server, connect: Connect, project: MakeProject
) -> None:
    log = LogWatch(hosting)
    servers = {
        "missing": {"type": "stdio", "command": "no-such-program-anywhere"},
        "dies": on_stdio("--die", "no licence: token=abcdef0123456789"),
        "hangs": on_stdio("--hang", timeout=2),
        "nowhere": {"type": "http", "url": "http://127.0.0.1:1/mcp", "timeout": 2},
        "nonsense": {"type": "stdio", "command": "sh", "args": ["-c", "yes", "x"], "timeout": 2},
        "off": on_stdio(disabled=True),
        "good": on_stdio("--greeting", "hello, I am no message"),
    }
    seat = await sit(hosting, connect, project("failing", mcp=servers))
    session = await seat.workspace.session()
    result = await run_call(seat, session, call("mcp_good_add", first=1, second=1))
    assert result["content"] == "2"
    began = time.monotonic()
    await run_call(seat, session, call("mcp_good_add", first=1, second=1))
    assert time.monotonic() - began < 3  # nobody is waited for twice
    await until_state(seat, "hangs", "error")
    shown = await states(seat)
    assert shown["off"] == {"name": "off", "state": "disabled", "connected_at": NEVER}
    errors = {name: (await until_state(seat, name, "error"))["error"] for name in list(servers)[:5]}
    assert errors["missing"].startswith("The command 'no-such-program-anywhere' was not found")
    assert errors["dies"].startswith("The server ended with exit code 3: no licence")
    assert "abcdef0123456789" not in errors["dies"]
    assert "did not start within 2 seconds" in errors["hangs"]
    assert "thinking about it" in errors["hangs"]
    assert "cannot be reached" in errors["nowhere"]
    assert "did not start within 2 seconds" in errors["nonsense"]
    # To the model they are as if they were not there.
    unknown = await run_call(seat, session, call("mcp_dies_add", first=1, second=1))
    assert "There is no tool" in unknown["content"]
    assert log.loud() == []


async def test_a_distant_server_that_was_started_anew_is_found_again(
    hosting: Server, connect: Connect, project: MakeProject, distant: MakeDistant
) -> None:
    there = distant("http")
    seat = await sit(hosting, connect, project("anew", mcp={"s": there.entry}))
    session = await seat.workspace.session()
    await run_call(seat, session, call("mcp_s_add", first=1, second=1))
    # It forgets the session: the next call does not even notice.
    await asyncio.to_thread(there.kill9)
    await asyncio.to_thread(there.start)
    result = await run_call(seat, session, call("mcp_s_add", first=1, second=2))
    assert result["content"] == "3", result
    # While it is away a call is an error, and the turn goes on.
    await asyncio.to_thread(there.kill9)
    away = await run_call(seat, session, call("mcp_s_add", first=1, second=3))
    assert away["is_error"]
    await asyncio.to_thread(there.start)
    await until(lambda: _adds(seat, session), "it is found again")


async def _adds(seat: Seat, session: str) -> bool:
    result = await run_call(seat, session, call("mcp_s_add", first=2, second=2))
    return bool(result["content"] == "4")


# -- what changes


async def test_a_changed_list_of_tools_reaches_clients_and_the_next_prompt(
    hosting: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await sit(hosting, connect, project("learning", mcp={"s": on_stdio()}))
    session = await seat.workspace.session()
    before = await run_call(seat, session, call("mcp_s_fresh_one"))
    assert "There is no tool" in before["content"]
    await run_call(seat, session, call("mcp_s_learn", tool="fresh_one"))
    told = await seat.stream.wait_for(
        lambda e: e.type == "mcp_event" and e.payload["type"] == "tools_list_changed"
    )
    assert told.payload["tool_count"] == 12
    assert told.payload["state"] == "connected"
    assert (await states(seat))["s"]["tool_count"] == 12
    after = await run_call(seat, session, call("mcp_s_fresh_one"))
    assert after["content"] == "fresh"


async def test_a_changed_configuration_restarts_only_what_changed(
    hosting: Server, connect: Connect, project: MakeProject, tmp_path: Path
) -> None:
    def entry(name: str, **more: str) -> dict[str, Any]:
        return on_stdio(env={"MCP_NOTES": str(tmp_path / name), **more})

    path = project("changing", mcp={"kept": entry("kept"), "changed": entry("changed")})
    seat = await sit(hosting, connect, path)
    for name in ("kept", "changed"):
        await until_state(seat, name, "connected")
    file = path / "crush.json"
    configuration = json.loads(file.read_text())
    configuration["mcp"]["changed"] = entry("changed", MORE="new")
    configuration["mcp"]["added"] = entry("added")
    start = seat.stream.mark()
    file.write_text(json.dumps(configuration))
    await until_state(seat, "added", "connected", start=start)
    await until_state(seat, "changed", "connected", start=start)
    session = await seat.workspace.session()
    result = await run_call(seat, session, call("mcp_changed_environment", variable="MORE"))
    assert result["content"] == "new"
    starts = {p: (tmp_path / p).read_text().count("started") for p in ("kept", "changed", "added")}
    assert starts == {"kept": 1, "changed": 2, "added": 1}
    del configuration["mcp"]["added"]
    file.write_text(json.dumps(configuration))

    async def is_gone() -> bool:
        return "added" not in await states(seat)

    await until(is_gone, "a server that is configured no more is forgotten")
    gone = await run_call(seat, session, call("mcp_added_add", first=1, second=1))
    assert "There is no tool" in gone["content"]


async def test_tools_are_switched_off_and_chosen_by_configuration(
    hosting: Server, connect: Connect, project: MakeProject
) -> None:
    servers = {
        "some": on_stdio(disabled_tools=["crash", "learn"]),
        "few": on_stdio(enabled_tools=["add", "odd name/é"]),
    }
    path = project("chosen", mcp=servers, options={"disabled_tools": ["mcp_some_fail"]})
    seat = await sit(hosting, connect, path)
    assert (await until_state(seat, "some", "connected"))["tool_count"] == 9
    assert (await until_state(seat, "few", "connected"))["tool_count"] == 2
    session = await seat.workspace.session()
    for name in ("mcp_some_crash", "mcp_few_fail", "mcp_some_fail"):
        result = await run_call(seat, session, call(name, why="x"))
        assert "There is no tool" in result["content"], name
    assert (await run_call(seat, session, call("mcp_few_odd_name__")))["content"] == "odd"


# -- prompts and resources


async def test_prompts_and_resources_are_given_to_clients(
    hosting: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await sit(hosting, connect, project("prompts", mcp={"s": on_stdio()}))
    workspace = seat.workspace
    assert await workspace.call("GET", "/mcp/prompts") == [
        {
            "id": "s:greet",
            "title": "Greeting",
            "description": "Greets somebody.",
            "prompt_id": "greet",
            "client_id": "s",
            "arguments": [
                {"id": "name", "title": "name", "required": True},
                {"id": "mood", "title": "mood", "required": False},
            ],
        }
    ]
    asked_for = {"client_id": "s", "prompt_id": "greet", "args": {"name": "Ada"}}
    answer = await workspace.call("POST", "/mcp/get-prompt", asked_for)
    assert answer == {"prompt": "Say hello to Ada, being happy."}
    read = await workspace.call("POST", "/mcp/read-resource", {"name": "s", "uri": "note://one"})
    assert read == [{"uri": "note://one", "mime_type": "text/plain", "text": "the first note"}]
    raw = await workspace.call("POST", "/mcp/read-resource", {"name": "s", "uri": "note://bytes"})
    assert base64.b64decode(raw[0]["blob"]) == b"\x00\x01\x02"
    for path, kind in [
        ("/mcp/refresh-tools", "tools_list_changed"),
        ("/mcp/refresh-prompts", "prompts_list_changed"),
        ("/mcp/refresh-resources", "resources_list_changed"),
    ]:
        start = seat.stream.mark()
        assert await workspace.call("POST", path, {"name": "s"}) is None
        told = await seat.stream.wait_for(
            lambda e, kind=kind: e.type == "mcp_event" and e.payload["type"] == kind, start=start
        )
        assert told.payload["prompt_count"] == 1


async def test_the_models_lists_and_reads_resources_with_leave(
    hosting: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("resources", mcp={"s": on_stdio()})
    seat = await sit(hosting, connect, path, yolo=False)
    session = await seat.workspace.session()
    for prompt, action, params, content in [
        (
            call("list_mcp_resources", mcp_name="s"),
            "list",
            {"mcp_name": "s"},
            "note://one (text/plain) One - The first note.\nnote://bytes (application/octet-stream) raw",
        ),
        (
            call("read_mcp_resource", mcp_name="s", uri="note://one"),
            "read",
            {"mcp_name": "s", "uri": "note://one"},
            "the first note",
        ),
    ]:
        start = seat.stream.mark()
        await seat.workspace.prompt(session, prompt)
        request = await asked(seat, session, start=start)
        assert (request["action"], request["path"]) == (action, str(path))
        assert request["params"] == params
        await seat.workspace.grant(request)
        await seat.stream.run_complete(session, start=start)
        assert results(await seat.workspace.messages(session))[-1]["content"] == content
    unknown = await run_call(seat, session, call("list_mcp_resources", mcp_name="nobody"))
    assert unknown["content"] == "There is no MCP server 'nobody'."


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", "/mcp/refresh-tools", {"name": "nobody"}, 404, "mcp server not found"),
        ("POST", "/mcp/refresh-tools", {}, 400, "name is required"),
        ("POST", "/mcp/refresh-tools", {"name": 3}, 400, "name: must be a string"),
        ("POST", "/mcp/refresh-prompts", b"{", 400, "failed to decode request"),
        ("POST", "/mcp/auth", {"name": "nobody"}, 404, "mcp server not found"),
        ("POST", "/mcp/auth", {"name": "s"}, 200, None),  # it is connected: nothing to do
        ("POST", "/mcp/auth", {"name": "off"}, 502, "mcp server off: "),
        ("GET", "/mcp/auth-url", None, 400, "name is required"),
        ("GET", "/mcp/auth-url?name=nobody", None, 404, "mcp server not found"),
        ("POST", "/mcp/read-resource", {"name": "s"}, 400, "uri is required"),
        ("POST", "/mcp/read-resource", {"name": "s", "uri": "x"}, 502, "mcp server s: "),
        ("POST", "/mcp/read-resource", {"name": "s", "uri": "note://no"}, 502, "mcp server s: "),
        ("POST", "/mcp/read-resource", {"name": "off", "uri": "note://one"}, 502, "switched off"),
        ("POST", "/mcp/get-prompt", {"client_id": "s", "prompt_id": "no"}, 502, "mcp server s: "),
        (
            "POST",
            "/mcp/get-prompt",
            {"client_id": "s", "prompt_id": "greet", "args": {"name": 1}},
            400,
            "args: must be an object of strings",
        ),
    ],
)
async def test_bad_requests_are_refused_in_a_sentence(
    method: str,
    path: str,
    body: Any,
    status: int,
    message: str | None,
    hosting: Server,
    connect: Connect,
    project: MakeProject,
) -> None:
    servers = {"s": on_stdio(), "off": on_stdio(disabled=True)}
    seat = await sit(hosting, connect, project("bad", mcp=servers))
    await until_state(seat, "s", "connected")
    if message is None:
        assert await seat.workspace.call(method, path, body, expect=status) == {}
        return
    with pytest.raises(UnexpectedStatus) as refused:
        await seat.workspace.call(method, path, body, expect=999)
    assert refused.value.status == status
    assert message in refused.value.message


# -- where they end


def _living(pids: list[int]) -> list[int]:
    return [pid for pid in pids if _is_living(pid)]


def _is_living(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@linux_only
async def test_a_closed_workspace_takes_its_servers_and_all_they_started_with_it(
    hosting: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await sit(hosting, connect, project("closing", mcp={"s": on_stdio(), "t": on_stdio()}))
    session = await seat.workspace.session()
    spawned = json.loads((await run_call(seat, session, call("mcp_s_spawn")))["content"])
    pids = [spawned["pid"], spawned["child"]]
    assert _living(pids) == pids
    await seat.workspace.release()
    await eventually(lambda: _living(pids) == [], "server and child are gone")
    # Opened again, everything is there again.
    again = await sit(hosting, connect, seat.workspace.path)
    assert (await until_state(again, "s", "connected"))["tool_count"] == 11
    result = await run_call(again, session, call("mcp_s_add", first=1, second=1))
    assert result["content"] == "2"


@linux_only
@pytest.mark.parametrize("with_supervisor", [False, True])
async def test_nothing_of_a_killed_server_is_left_after_its_next_start(
    with_supervisor: bool,
    embedded_server: Server,
    connect: Connect,
    project: MakeProject,
) -> None:
    server = embedded_server
    path = project("killed", mcp={"s": on_stdio()})
    seat = await sit(server, connect, path)
    session = await seat.workspace.session()
    spawned = json.loads((await run_call(seat, session, call("mcp_s_spawn")))["content"])
    pids = [spawned["pid"], spawned["child"]]
    if with_supervisor:
        supervisors = _supervisors_of(server.pids()[0])
        assert supervisors
        _signal_all(supervisors, signal.SIGSTOP)  # none may see another's end, and tidy up
        server.kill9()
        _signal_all(supervisors, signal.SIGKILL)
        assert _living([spawned["child"]])
    else:
        server.kill9()
    await asyncio.to_thread(server.start)
    await eventually(lambda: _living(pids) == [], "server and child are gone")
    again = await sit(server, connect, path)
    assert (await until_state(again, "s", "connected"))["tool_count"] == 11
    result = await run_call(again, session, call("mcp_s_add", first=1, second=1))
    assert result["content"] == "2"


def _supervisors_of(pid: int) -> list[int]:
    """The process that starts commands, and each command's own, which would tidy up."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(folder.name))
    below, edge = [], [pid]
    while edge:
        found = children.get(edge.pop(), [])
        below += found
        edge += found
    return [one for one in below if b"supervise.py" in _command_line(one)]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


@linux_only
async def test_a_server_that_stops_leaves_no_process(
    make_a_server: Callable[..., Server], connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(Shape.EMBEDDED)
    server.start()
    seat = await sit(server, connect, project("stopping", mcp={"s": on_stdio()}))
    await until_state(seat, "s", "connected")
    began = time.monotonic()
    await asyncio.to_thread(server.stop)
    assert time.monotonic() - began < 4
    assert marked(f"CRUSH_DATA_DIR={server.data_dir}") == []
    assert "was never retrieved" not in server.log_text()
    assert "Traceback" not in server.log_text()


# -- Docker's gateway


async def test_dockers_gateway_is_taken_into_the_users_configuration_and_out_again(
    make_a_server: Callable[..., Server], connect: Connect, project: MakeProject, tmp_path: Path
) -> None:
    server = make_a_server(Shape.EMBEDDED)
    server.start()
    programs = tmp_path / "programs"
    programs.mkdir()
    docker = programs / "docker"
    docker.write_text(
        "#!/bin/sh\n"
        f'[ "$1 $2" = "mcp version" ] && [ -e {programs}/plugin ] && exit 0\n'
        f'[ "$1 $2 $3" = "mcp gateway run" ] && exec {sys.executable} {DOUBLE}\n'
        "exit 1\n"
    )
    without = await sit(server, connect, project("no-docker"), env=["PATH=/nowhere"])
    with pytest.raises(UnexpectedStatus) as refused:
        await without.workspace.call("POST", "/mcp/docker/enable")
    assert refused.value.status == 400
    assert refused.value.message.startswith("docker was not found")
    docker.chmod(0o755)
    path = f"PATH={programs}:{os.environ['PATH']}"
    seat = await sit(server, connect, project("docker"), env=[path])
    with pytest.raises(UnexpectedStatus) as refused:
        await seat.workspace.call("POST", "/mcp/docker/enable")
    assert refused.value.message.startswith("docker has no MCP gateway")
    assert await states(seat) == {}
    (programs / "plugin").touch()
    assert await seat.workspace.call("POST", "/mcp/docker/enable") is None
    await until_state(seat, "docker", "connected")
    shown = await seat.workspace.call("GET", "/config")
    assert shown["mcp"]["docker"]["args"] == ["mcp", "gateway", "run"]
    await seat.stream.wait_for(lambda e: e.type == "config_changed")
    session = await seat.workspace.session()
    assert (await run_call(seat, session, call("mcp_docker_add", first=1, second=1)))[
        "content"
    ] == "2"
    assert await seat.workspace.call("POST", "/mcp/docker/disable") is None
    assert await states(seat) == {}
    assert "mcp" not in await seat.workspace.call("GET", "/config")
    assert await seat.workspace.call("POST", "/mcp/docker/disable") is None
