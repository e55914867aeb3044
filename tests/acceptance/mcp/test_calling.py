"""MCP servers, real ones, through a running server: their tools are told to models and called."""

import base64
import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.calling import call, eventually, permission_request, results, run_call
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.mcp.servers import on_stdio, states
from tests.acceptance.mcp.sitting import NEVER, Connect, MakeDistant, MakeProject, sit


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
    listed = await seat.stream.wait_for(
        lambda e: e.type == "mcp_event" and e.payload["type"] == "tools_list_changed", start=start
    )
    assert listed.action == "updated"
    assert listed.payload == {"type": "tools_list_changed", **shown}
    # The model is told each tool by a name that every provider takes, with the server's schema.
    number = next(entry["number"] for entry in model.served(mark) if not entry["title"])
    tools = {t["function"]["name"]: t["function"] for t in model.request(number)["body"]["tools"]}
    assert tools["mcp_s_add"]["description"] == "Adds two numbers."
    assert set(tools["mcp_s_add"]["parameters"]["properties"]) == {"first", "second"}
    assert "mcp_s_odd_name__" in tools
    assert (await run_call(seat, session, call("mcp_s_odd_name__")))["content"] == "odd"


async def test_a_permission_request_has_the_calls_arguments_as_an_object(
    hosting: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("permission_request", mcp={"s": on_stdio()})
    seat = await sit(hosting, connect, path, yolo=False)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, call("mcp_s_add", first=1, second=2))
    request = await permission_request(seat, session)
    assert request["tool_name"] == "mcp_s_add"
    assert request["action"] == "execute"
    assert request["path"] == str(path)
    assert request["params"] == {"first": 1, "second": 2}
    await seat.workspace.grant(request)
    await seat.stream.run_complete(session)
    (result,) = results(await seat.workspace.messages(session))
    assert result["content"] == "3"


async def test_wrong_arguments_are_reported_with_the_field(
    hosting: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await sit(hosting, connect, project("wrong", mcp={"s": on_stdio()}))
    session = await seat.workspace.session()
    for arguments, message in [
        ({"first": "x", "second": 2}, "first: 'x' is not of type 'integer'"),
        ({"first": 1}, "'second' is a required property"),
    ]:
        result = await run_call(seat, session, call("mcp_s_add", **arguments))
        assert result["is_error"]
        assert result["content"] == message


async def test_results_of_every_kind_are_returned_and_bounded(
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
    assert "cannot see images" in picture["content"]
    assert picture.get("data", "") == ""


async def test_a_model_that_supports_images_receives_one(
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


async def test_a_cancelled_call_is_cancelled_at_the_server(
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
