"""Prompts and resources of MCP servers, for clients and for models."""

import base64
from typing import Any

import pytest

from tests.acceptance.calling import call, permission_request, results, run_call
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.shapes import Server
from tests.acceptance.mcp.servers import on_stdio, until_state
from tests.acceptance.mcp.sitting import Connect, MakeProject, sit


async def test_prompts_and_resources_are_available_to_clients(
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
    body = {"client_id": "s", "prompt_id": "greet", "args": {"name": "Ada"}}
    answer = await workspace.call("POST", "/mcp/get-prompt", body)
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
        notified = await seat.stream.wait_for(
            lambda e, kind=kind: e.type == "mcp_event" and e.payload["type"] == kind, start=start
        )
        assert notified.payload["prompt_count"] == 1


async def test_the_model_lists_and_reads_resources_with_permission(
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
        request = await permission_request(seat, session, start=start)
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
        ("POST", "/mcp/read-resource", {"name": "off", "uri": "note://one"}, 502, "disabled"),
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
async def test_bad_requests_are_refused_with_the_reason(
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
