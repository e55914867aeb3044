"""Every endpoint answers 404 for a workspace that is unknown or closed, and for another workspace's session."""

from pathlib import Path

import pytest

from tests.integration.api.conftest import Opened
from tests.integration.api.refusals import CLIENT, refused

ENDPOINTS = [
    ("GET", "", None),
    ("DELETE", f"?client_id={CLIENT}", None),
    ("GET", "/config", None),
    ("GET", "/providers", None),
    ("POST", f"/current-session?client_id={CLIENT}", {"session_id": "s"}),
    ("GET", "/agent", None),
    ("POST", "/agent", {"session_id": "s", "prompt": "x"}),
    ("POST", "/agent/init", {"interactive": True}),
    ("POST", "/agent/update", None),
    ("GET", "/agent/default-small-model?provider_id=x", None),
    ("GET", "/agent/sessions/s", None),
    ("POST", "/agent/sessions/s/cancel", None),
    ("GET", "/agent/sessions/s/prompts/queued", None),
    ("GET", "/agent/sessions/s/prompts/list", None),
    ("POST", "/agent/sessions/s/prompts/clear", None),
    ("GET", "/sessions", None),
    ("POST", "/sessions", {"title": "t"}),
    ("GET", "/sessions/s", None),
    ("PUT", "/sessions/s", {"title": "t"}),
    ("DELETE", "/sessions/s", None),
    ("GET", "/sessions/s/children", None),
    ("GET", "/sessions/s/messages", None),
    ("GET", "/sessions/s/messages/user", None),
    ("GET", "/sessions/s/history", None),
    ("GET", "/sessions/s/filetracker/files", None),
    ("GET", "/messages/user", None),
    ("POST", "/filetracker/read", {"session_id": "s", "path": "a"}),
    ("GET", "/filetracker/lastread?session_id=s&path=a", None),
    ("GET", "/permissions/skip", None),
    ("POST", "/permissions/skip", {"skip": True}),
    ("POST", "/permissions/grant", {"action": "allow", "permission": {"id": "x"}}),
    ("GET", "/lsps", None),
    ("GET", "/mcp/states", None),
    ("GET", "/mcp/pending-auth", None),
    ("GET", "/mcp/prompts", None),
    ("GET", "/skills", None),
]


async def test_every_endpoint_of_an_unknown_workspace_is_not_found(
    workspace: Opened, quiet: pytest.LogCaptureFixture
) -> None:
    for method, path, body in ENDPOINTS:
        answer = await refused(
            workspace, quiet, method, f"/v1/workspaces/{CLIENT}{path}", body=body
        )
        assert (answer.status, answer.message, path) == (404, "workspace not found", path)


async def test_every_endpoint_of_a_closed_workspace_is_not_found(
    workspace: Opened, quiet: pytest.LogCaptureFixture
) -> None:
    session_id = await workspace.session()
    released = f"{workspace.url}?client_id={workspace.client_id}"
    assert (await workspace.api.call("DELETE", released)).status == 200
    for method, path, body in ENDPOINTS:
        path = path.replace("/s/", f"/{session_id}/").replace(
            "sessions/s", f"sessions/{session_id}"
        )
        if body is not None and "session_id" in body:
            body = body | {"session_id": session_id}
        answer = await refused(workspace, quiet, method, f"{workspace.url}{path}", body=body)
        assert (answer.status, answer.message, path) == (404, "workspace not found", path)
    assert await workspace.api.get("/v1/workspaces") == []


async def test_a_session_of_another_workspace_is_not_found(
    workspace: Opened, quiet: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    session_id = await workspace.session()
    other = await workspace.api.post("/v1/workspaces", {"path": str(tmp_path), "client_id": CLIENT})
    for method, path, body in ENDPOINTS:
        if "sessions/s" not in path and not (body and "session_id" in body and path == "/agent"):
            continue
        path = path.replace("sessions/s", f"sessions/{session_id}")
        if body is not None and "session_id" in body:
            body = body | {"session_id": session_id}
        answer = await refused(
            workspace, quiet, method, f"/v1/workspaces/{other['id']}{path}", body=body
        )
        assert (answer.status, answer.message, path) == (404, "session not found", path)
