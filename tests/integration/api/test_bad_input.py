"""Whatever a client sends: a 4xx that says what is wrong, nothing stored, nothing logged."""

import asyncio
from typing import Any

import orjson
import pytest

from tests.integration.api.conftest import Opened
from tests.integration.api.refusals import CLIENT, refused

MALFORMED = "failed to decode request"
DEEP = b'{"a":' * 3000 + b"1" + b"}" * 3000
WIDE = {"path": "/", "client_id": CLIENT}


# Of the body alone: the JSON never becomes fields.
RAW = [
    b"{nope",
    b"[]",
    b"null",
    b'"text"',
    b"17",
    b"\xff\xfe{}",
    b'{"a": NaN}',
    b'{"title": "\\ud800"}',
    b'{"title": "a\x00b"}',
    b"\xef\xbb\xbf{}",
    b"{} {}",
    b"{'title': 1}",
    b"a=b&c=d",
    DEEP,
    b"[" * 100_000,
]
READING_BODIES = [
    ("POST", "/v1/workspaces"),
    ("POST", "/v1/control"),
    ("POST", "{ws}/sessions"),
    ("PUT", "{ws}/sessions/{sid}"),
    ("POST", "{ws}/agent"),
    ("POST", "{ws}/permissions/skip"),
    ("POST", "{ws}/permissions/grant"),
    ("POST", "{ws}/filetracker/read"),
]


@pytest.mark.parametrize("raw", RAW, ids=lambda raw: repr(raw[:16]))
async def test_it_refuses_a_body_that_is_no_json_object(
    workspace: Opened, quiet: pytest.LogCaptureFixture, raw: bytes
) -> None:
    places = {"ws": workspace.url, "sid": await workspace.session()}
    for method, address in READING_BODIES:
        answer = await refused(workspace, quiet, method, address.format(**places), raw=raw)
        assert answer.status == 400
        assert answer.message.startswith(MALFORMED)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"client_id": CLIENT}, 400, "path is required"),
        ({"path": "", "client_id": CLIENT}, 400, "path is required"),
        ({"path": None, "client_id": CLIENT}, 400, "path: must not be null"),
        ({"path": 5, "client_id": CLIENT}, 400, "path: must be a string"),
        ({"path": ["/"], "client_id": CLIENT}, 400, "path: must be a string"),
        ({"path": "a/b", "client_id": CLIENT}, 400, "path: must be absolute"),
        ({"path": "~", "client_id": CLIENT}, 400, "path: must be absolute"),
        ({"path": "/no/such/place", "client_id": CLIENT}, 400, "path: does not exist"),
        ({"path": "/etc/passwd", "client_id": CLIENT}, 400, "path: is not a directory"),
        ({"path": "/etc/passwd/x", "client_id": CLIENT}, 400, "path: is not a directory"),
        ({"path": "/\0", "client_id": CLIENT}, 400, "path: must not hold a NUL character"),
        ({"path": "/" + "x" * 300, "client_id": CLIENT}, 400, "path: cannot be opened"),
        ({"path": "/" * 5000, "client_id": CLIENT}, 400, "path: must have at most"),
        ({"path": "/"}, 400, "invalid client_id: invalid UUID length: 0"),
        (
            {"path": "/home/dev", "client_id": "not-a-uuid"},
            400,
            "invalid client_id: invalid UUID length: 10",
        ),
        ({"path": "/", "client_id": "x" * 36}, 400, "invalid client_id: invalid UUID format"),
        ({"path": "/", "client_id": "０" * 36}, 400, "invalid client_id: invalid UUID format"),
        ({"path": "/", "client_id": 7}, 400, "client_id: must be a string"),
        (WIDE | {"yolo": "yes"}, 400, "yolo: must be true or false"),
        (WIDE | {"yolo": 1}, 400, "yolo: must be true or false"),
        (WIDE | {"debug": None}, 400, "debug: must not be null"),
        (WIDE | {"env": {"A": "B"}}, 400, "env: must be a list of strings"),
        (WIDE | {"env": ["A=B", 1]}, 400, "env: must be a list of strings"),
        (WIDE | {"env": ["A=B", "C"]}, 400, "env[1]: must be NAME=VALUE"),
        (WIDE | {"env": ["=B"]}, 400, "env[0]: must be NAME=VALUE"),
        (WIDE | {"env": ["A=\0"]}, 400, "env: must not hold a NUL character"),
        (WIDE | {"env": ["A=B"] * 10_001}, 400, "env: must have at most 10000 items"),
        (WIDE | {"env": ["A=" + "x" * 600_000] * 2}, 400, "env: must have at most 1000000"),
        (WIDE | {"channels": "all"}, 400, "channels: must be a list of strings"),
        (WIDE | {"data_dir": "/\0"}, 400, "data_dir: must not hold a NUL character"),
        (WIDE | {"data_dir": {}}, 400, "data_dir: must be a string"),
    ],
)
async def test_it_refuses_to_open_a_workspace(
    workspace: Opened, quiet: pytest.LogCaptureFixture, body: Any, status: int, message: str
) -> None:
    answer = await refused(workspace, quiet, "POST", "/v1/workspaces", body=body)
    assert answer.status == status
    assert answer.message.startswith(message)


def attached(**fields: Any) -> dict[str, Any]:
    return {"prompt": "x", "attachments": [{"content": "aGk=", "mime_type": "text/plain"} | fields]}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"prompt": ""}, "prompt is empty"),
        ({}, "prompt is empty"),
        ({"prompt": None}, "prompt: must not be null"),
        ({"prompt": 5}, "prompt: must be a string"),
        ({"prompt": {"text": "x"}}, "prompt: must be a string"),
        ({"prompt": "a\0b"}, "prompt: must not hold a NUL character"),
        ({"prompt": "x" * 10_000_000}, "prompt: must have at most 1000000 characters"),
        ({"prompt": "x", "session_id": ""}, "session id is missing"),
        ({"prompt": "x", "session_id": None}, "session_id: must not be null"),
        ({"prompt": "x", "session_id": 2**60}, "session_id: must be a string"),
        ({"prompt": "x", "session_id": "s" * 201}, "session_id: must have at most 200"),
        ({"prompt": "x", "session_id": "\0"}, "session_id: must not hold a NUL character"),
        ({"prompt": "x", "run_id": 1}, "run_id: must be a string"),
        ({"prompt": "x", "run_id": "r" * 201}, "run_id: must have at most 200 characters"),
        ({"prompt": "x", "run_id": "\0"}, "run_id: must not hold a NUL character"),
        ({"prompt": "x", "attachments": "a"}, "attachments: must be a list"),
        ({"prompt": "x", "attachments": {"0": {}}}, "attachments: must be a list"),
        ({"prompt": "x", "attachments": ["a"]}, "attachments[0]: must be an object"),
        ({"prompt": "x", "attachments": [{}] * 51}, "attachments: must have at most 50 items"),
        (
            {"prompt": "x", "attachments": [{}, {}, {"content": "%%"}]},
            "attachments[2].content: must be base64",
        ),
        (attached(content="aGk"), "attachments[0].content: must be base64"),
        (attached(content="ä"), "attachments[0].content: must be base64"),
        (attached(content=1), "attachments[0].content: must be a string"),
        (attached(mime_type=[]), "attachments[0].mime_type: must be a string"),
        (attached(mime_type="x" * 201), "attachments[0].mime_type: must have at most"),
        (attached(file_name="\0"), "attachments[0].file_name: must not hold a NUL"),
        (attached(file_path=None), "attachments[0].file_path: must not be null"),
        ({"prompt": "", "attachments": [{"mime_type": "image/png"}]}, "prompt is empty"),
    ],
)
async def test_it_refuses_a_prompt(
    workspace: Opened, quiet: pytest.LogCaptureFixture, body: Any, message: str
) -> None:
    body = {"session_id": await workspace.session()} | body
    answer = await refused(workspace, quiet, "POST", f"{workspace.url}/agent", body=body)
    assert answer.status == 400
    assert answer.message.startswith(message)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", "/v1/control", {"command": "dance"}, 400, "unknown command"),
        ("POST", "/v1/control", {}, 400, "unknown command"),
        ("POST", "/v1/control", {"command": 1}, 400, "command: must be a string"),
        ("POST", "{ws}/sessions", {"title": 5}, 400, "title: must be a string"),
        ("POST", "{ws}/sessions", {"title": None}, 400, "title: must not be null"),
        ("POST", "{ws}/sessions", {"title": "x" * 501}, 400, "title: must have at most 500"),
        ("POST", "{ws}/sessions", {"title": "\0"}, 400, "title: must not hold a NUL"),
        ("PUT", "{ws}/sessions/{sid}", {}, 400, "title is required"),
        ("PUT", "{ws}/sessions/{sid}", {"title": []}, 400, "title: must be a string"),
        ("PUT", "{ws}/sessions/nope", {"title": "x"}, 404, "session not found"),
        ("GET", "{ws}/sessions/nope", None, 404, "session not found"),
        ("GET", "{ws}/sessions/%00", None, 404, "session not found"),
        ("GET", "{ws}/sessions/%ED%A0%80", None, 404, "session not found"),
        ("GET", "{ws}/sessions/{long}", None, 404, "session not found"),
        ("GET", "{ws}/sessions/{long}/messages", None, 404, "session not found"),
        ("DELETE", "{ws}/sessions/nope", None, 404, "session not found"),
        ("DELETE", "{ws}/sessions/{long}", None, 404, "session not found"),
        ("POST", "{ws}/agent/sessions/nope/cancel", None, 404, "session not found"),
        ("POST", "{ws}/agent/sessions/nope/prompts/clear", None, 404, "session not found"),
        ("GET", "{ws}/agent/sessions/nope/prompts/list", None, 404, "session not found"),
        ("POST", "{ws}/agent", {"session_id": "no", "prompt": "x"}, 404, "session not found"),
        ("POST", "{ws}/agent/init", {"interactive": "no"}, 400, "interactive: must be true"),
        ("GET", "/v1/workspaces/{long}", None, 404, "workspace not found"),
        ("GET", "/v1/workspaces/%00", None, 404, "workspace not found"),
        ("GET", "/v1/workspaces/%00/agent", None, 404, "workspace not found"),
        ("POST", "/v1/workspaces/{long}/agent/update", None, 404, "workspace not found"),
        ("POST", "{ws}/permissions/skip", {}, 400, "skip is required"),
        ("POST", "{ws}/permissions/skip", {"skip": "true"}, 400, "skip: must be true or false"),
        ("POST", "{ws}/permissions/grant", {}, 400, "permission is required"),
        (
            "POST",
            "{ws}/permissions/grant",
            {"action": "maybe", "permission": {"id": "x"}},
            400,
            "failed to decode request: action must be one of allow, allow_session, deny",
        ),
        (
            "POST",
            "{ws}/permissions/grant",
            {"action": "allow", "permission": {}},
            400,
            "permission.id is required",
        ),
        (
            "POST",
            "{ws}/permissions/grant",
            {"action": "allow", "permission": "x"},
            400,
            "permission: must be an object",
        ),
        (
            "POST",
            "{ws}/permissions/grant",
            {"action": "allow", "permission": {"id": 1}},
            400,
            "permission.id: must be a string",
        ),
        ("POST", "{ws}/filetracker/read", {"session_id": "{sid}"}, 400, "path is required"),
        (
            "POST",
            "{ws}/filetracker/read",
            {"session_id": "s", "path": "no.txt"},
            400,
            "path: there is no such file",
        ),
        ("POST", "{ws}/filetracker/read", {"session_id": "s", "path": "."}, 400, "path: is not a"),
        ("POST", "{ws}/filetracker/read", {"session_id": "s", "path": "\0"}, 400, "path: must not"),
        (
            "POST",
            "{ws}/filetracker/read",
            {"session_id": "s", "path": "x" * 300},
            400,
            "path: there is no such file",
        ),
        ("POST", "{ws}/filetracker/read", {"path": "a"}, 400, "session_id is required"),
        ("GET", "{ws}/filetracker/lastread?session_id={sid}", None, 400, "path is required"),
        ("GET", "{ws}/filetracker/lastread?path=a", None, 400, "session_id is required"),
        ("GET", "{ws}/filetracker/lastread?session_id=s&path=%00", None, 400, "path: must not"),
        ("GET", "{ws}/filetracker/lastread?session_id=no&path=a", None, 404, "session not found"),
        ("POST", "{ws}/current-session", {"session_id": ""}, 400, "invalid client_id"),
        ("POST", "{ws}/current-session?client_id=x", {"session_id": ""}, 400, "invalid client_id"),
        ("POST", "{ws}/current-session?client_id={cid}", {}, 400, "session_id is required"),
        (
            "POST",
            "{ws}/current-session?client_id={cid}",
            {"session_id": 5},
            400,
            "session_id: must be a string",
        ),
        (
            "POST",
            "{ws}/current-session?client_id={cid}",
            {"session_id": "s"},
            409,
            "client not attached",
        ),
        ("DELETE", "{ws}", None, 400, "invalid client_id: invalid UUID length: 0"),
        ("DELETE", "{ws}?client_id=%00", None, 400, "client_id: must not hold a NUL"),
        ("DELETE", "/v1/clients/x", None, 400, "invalid client_id: invalid UUID length: 1"),
        ("DELETE", "/v1/clients/%00", None, 400, "invalid client_id: invalid UUID length: 1"),
        ("GET", "{api}/snapshot?session=nope", None, 404, "session not found"),
        ("GET", "{api}/snapshot?session={long}", None, 400, "session: must have at most"),
        ("GET", "/api/workspaces/nope/snapshot", None, 404, "workspace not found"),
        ("GET", "{ws}/agent/default-small-model?provider_id=%00", None, 400, "provider_id: must"),
        ("PATCH", "{ws}", None, 405, "method not allowed"),
        ("DELETE", "{ws}/agent/sessions/{sid}", None, 405, "method not allowed"),
        ("BREW", "/v1/health", None, 405, "method not allowed"),
        ("OPTIONS", "/v1/health", None, 405, "method not allowed"),
        ("GET", "/v1/control", None, 405, "method not allowed"),
        ("GET", "{ws}/nothing", None, 404, "not found"),
        ("GET", "{ws}/agent/", None, 404, "not found"),
        ("GET", "/v1", None, 404, "not found"),
        ("GET", "/api/../v1/health", None, 404, "not found"),
        ("GET", "/v1/workspaces//agent", None, 404, "not found"),
        ("GET", "{ws}/filetracker/lastread?{many}", None, 400, "the request's address"),
        ("GET", "{ws}/filetracker/lastread?\udcff", None, 400, "the request's address"),
    ],
)
async def test_it_refuses(
    workspace: Opened,
    quiet: pytest.LogCaptureFixture,
    method: str,
    path: str,
    body: Any,
    status: int,
    message: str,
) -> None:
    address = path.format(
        ws=workspace.url,
        api=f"/api/workspaces/{workspace.id}",
        sid=await workspace.session(),
        cid=workspace.client_id,
        long="x" * 100_000,
        many="&".join(f"a{i}=1" for i in range(2000)),
    )
    answer = await refused(workspace, quiet, method, address, body=body)
    assert answer.status == status
    assert answer.message.startswith(message)


async def test_it_never_repeats_an_entry_of_the_environment(
    workspace: Opened, quiet: pytest.LogCaptureFixture
) -> None:
    body = WIDE | {"env": ["sk-secret"]}
    answer = await refused(workspace, quiet, "POST", "/v1/workspaces", body=body)
    assert b"sk-secret" not in answer.body
    assert "sk-secret" not in quiet.text


@pytest.mark.parametrize("content_type", [None, "text/plain", "text/plain; charset=utf-8", "x"])
async def test_it_reads_json_whatever_its_content_type(
    workspace: Opened, content_type: str | None
) -> None:
    answer = await workspace.api.call(
        "POST", f"{workspace.url}/sessions", {"title": "told"}, content_type=content_type
    )
    assert answer.json["title"] == "told"


async def test_it_does_not_read_a_form(workspace: Opened) -> None:
    answer = await workspace.api.call(
        "POST",
        f"{workspace.url}/sessions",
        raw=b"title=a",
        content_type="application/x-www-form-urlencoded",
    )
    assert (answer.status, answer.message) == (400, MALFORMED)


async def test_a_large_bad_body_does_not_hold_the_loop_up(workspace: Opened) -> None:
    body = orjson.dumps(WIDE | {"env": [1] * 3_000_000})
    asked = asyncio.create_task(workspace.api.call("POST", "/v1/workspaces", raw=body))
    turns = 0
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await asked).status == 400
    assert turns > 3
