"""No answer, event, log line or file of the server holds a secret of a workspace or its own."""

import asyncio
import json
import os
import stat
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.acceptance.calling import bash, permission_request, results, run_call
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.native import NativeSocket, NativeSse
from tests.acceptance.harness.project import MODELS, write_whole
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.marked import linux_only

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeServer = Callable[..., Server]

# Each is told apart by its name, so that a leak says which of them it is.
GIVEN = {
    name: f"{name.lower()}-{uuid.uuid4().hex}"
    for name in (
        "ENV_SECRET",
        "KEY_BY_VARIABLE",
        "LITERAL_KEY",
        "HEADER",
        "HEADER_BY_VARIABLE",
        "BODY",
        "MCP_ENV",
        "MCP_HEADER",
        "MCP_ARGUMENT",
        "LSP_ENV",
        "LSP_ARGUMENT",
        "HOOK_COMMAND",
        "MCP_COMMAND",
    )
}
SERVERS_OWN = f"servers-own-{uuid.uuid4().hex}"
ALL = {**GIVEN, "CRUSH_SECRET_KEY": SERVERS_OWN}


class Echo:
    """A model's address that refuses every key and repeats what it was sent."""

    def __init__(self) -> None:
        self.url = ""
        self.seen = ""

    async def answer(self, request: web.Request) -> web.Response:
        text = json.dumps(dict(request.headers)) + (await request.read()).decode()
        self.seen += text
        key = request.headers.get("Authorization", "")
        message = f"Incorrect API key provided: {key}. You sent {text}"
        return web.json_response({"error": {"message": message}}, status=401)


@pytest.fixture
async def echo() -> AsyncIterator[Echo]:
    echo = Echo()
    app = web.Application(client_max_size=10_000_000)
    app.router.add_route("*", "/{tail:.*}", echo.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    echo.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield echo
    await runner.cleanup()


def provider(base_url: str, key: str) -> dict[str, Any]:
    return {
        "name": "Fake",
        "type": "openai-compat",
        "base_url": base_url,
        "api_key": key,
        "extra_headers": {
            "X-Literal": GIVEN["HEADER"],
            "X-Variable": "Bearer $HEADER_BY_VARIABLE",
        },
        "extra_body": {"anything": {"at all": [GIVEN["BODY"]]}},
        "models": [{"id": m, "name": m, "context_window": 200_000} for m in MODELS],
    }


@pytest.fixture
def secret_project(project: MakeProject, model: ScriptedModel, echo: Echo) -> Path:
    return project(
        "secretive",
        providers={
            "fake": provider(model.base_url, "$KEY_BY_VARIABLE"),
            "literal": provider(echo.url, GIVEN["LITERAL_KEY"]),
        },
        mcp={
            "tool": {
                "type": "stdio",
                "command": "true",
                "args": ["--token", GIVEN["MCP_ARGUMENT"], GIVEN["MCP_ARGUMENT"]],
                "env": {"TOKEN": GIVEN["MCP_ENV"]},
            },
            "missing": {"command": f"no-such-program {GIVEN['MCP_COMMAND']}"},
            "web": {
                "type": "http",
                "url": "http://127.0.0.1:1/mcp",
                "headers": {"Authorization": f"Bearer {GIVEN['MCP_HEADER']}"},
            },
        },
        lsp={
            "go": {
                "command": "gopls",
                "args": [GIVEN["LSP_ARGUMENT"]],
                "env": {"KEY": GIVEN["LSP_ENV"]},
            }
        },
        hooks={"PreToolUse": [{"command": f"true -H 'X-Auth: x' {GIVEN['HOOK_COMMAND']}"}]},
        permissions={"allowed_tools": ["view"]},
    )


ENV = [
    f"ENV_SECRET={GIVEN['ENV_SECRET']}",
    f"KEY_BY_VARIABLE={GIVEN['KEY_BY_VARIABLE']}",
    f"HEADER_BY_VARIABLE={GIVEN['HEADER_BY_VARIABLE']}",
    f"PATH={os.environ['PATH']}",
]


def leaks(text: str | bytes) -> list[str]:
    raw = text.encode() if isinstance(text, str) else text
    return sorted(name for name, secret in ALL.items() if secret.encode() in raw)


@pytest.fixture
def secretive(make_a_server: MakeServer, shape: Shape) -> Iterator[Server]:
    """Says all that it has to say, and holds a secret of its own."""
    server = make_a_server(
        shape,
        env={
            "CRUSH_LOG_LEVEL": "DEBUG",
            "CRUSH_SECRET_KEY": SERVERS_OWN,
            "CRUSH_SERVER_CREATE_GRACE": "60",
            "CRUSH_SERVER_DETACH_GRACE": "60",
        },
    )
    server.start()
    yield server
    assert leaks(server.log_text()) == []


async def every_answer(client: Client, seat: Seat, session: str) -> dict[str, bytes]:
    """The raw answers of every GET endpoint."""
    base, native = f"/v1/workspaces/{seat.workspace.id}", f"/api/workspaces/{seat.workspace.id}"
    paths = ["/v1/workspaces", base, "/v1/config", "/v1/version", f"{native}/snapshot"]
    paths += [f"{native}/snapshot?session={session}"]
    paths += [
        base + rest
        for rest in (
            "/config",
            "/providers",
            "/agent",
            "/agent/default-small-model?provider_id=literal",
            f"/agent/sessions/{session}",
            f"/agent/sessions/{session}/prompts/list",
            "/sessions",
            f"/sessions/{session}",
            f"/sessions/{session}/messages",
            f"/sessions/{session}/history",
            "/messages/user",
            "/permissions/skip",
            "/mcp/states",
            "/lsps",
            "/skills",
        )
    ]
    answers = {}
    for path in paths:
        async with client.http.session.get(client.http.url + path) as answer:
            answers[path] = await answer.read()
            assert answer.status == 200, path
    return answers


async def test_no_secret_of_a_workspace_is_revealed(
    secretive: Server, connect: Connect, secret_project: Path, echo: Echo, model: ScriptedModel
) -> None:
    client = connect(secretive)
    seat = await take_seat(client, secret_project, env=ENV)
    assert leaks(json.dumps(seat.workspace.answer)) == []
    socket = await NativeSocket(client.http, seat.workspace.id, after=0).open()
    sse = await NativeSse(client.http, seat.workspace.id, after=0).open()
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    # The secrets are used: the model was given the key and the headers.
    await seat.workspace.prompt(session, f"used {mark} [[n=3]]", "used")
    assert "error" not in await seat.stream.run_complete(session, "used")
    sent = json.dumps([model.request(entry["number"]) for entry in model.served(mark)])
    assert GIVEN["KEY_BY_VARIABLE"] in sent
    assert GIVEN["HEADER_BY_VARIABLE"] in sent
    # A permission is requested and answered, and a tool run.
    await seat.workspace.prompt(session, bash('test -n "$ENV_SECRET" && touch has-it'), "tool")
    await seat.workspace.grant(await permission_request(seat, session))
    await seat.stream.run_complete(session, "tool")
    assert (secret_project / "has-it").exists()
    # A provider refuses, and says the key and all headers back.
    config = json.loads((secret_project / "crush.json").read_text())
    for kind in ("large", "small"):
        config["models"][kind]["provider"] = "literal"
    seat.workspace.configure(config)
    await seat.workspace.call("POST", "/agent/update")
    refused = await seat.workspace.session()
    await seat.workspace.prompt(refused, "refused", "refused")
    complete = await seat.stream.run_complete(refused, "refused")
    assert complete["error"]
    assert GIVEN["LITERAL_KEY"] in echo.seen
    assert leaks(json.dumps(complete)) == []
    # A broken file is told without its content.
    provider_entry = {"x": {"api_key": GIVEN["LITERAL_KEY"], "base_url": 7}}
    whole = json.dumps({"providers": provider_entry, "mcp": GIVEN["MCP_ENV"]})
    write_whole(secret_project / "crush.json", whole[:-1])
    await seat.workspace.call("POST", "/agent/update")
    assert (await seat.workspace.config())["problems"]
    broken = await every_answer(client, seat, session)
    seat.workspace.configure(config)
    await seat.workspace.call("POST", "/agent/update")
    assert (await seat.workspace.config())["providers"]["literal"]["api_key"] == "********"
    assert (await seat.workspace.config())["providers"]["fake"]["api_key"] == "$KEY_BY_VARIABLE"
    for answers in (broken, await every_answer(client, seat, session)):
        assert {path: leaks(body) for path, body in answers.items() if leaks(body)} == {}
    for path, body in (await every_answer(client, seat, refused)).items():
        assert leaks(body) == [], path
    await sse.wait_for(lambda r: "run.finished" in json.dumps(r.body))
    received = [json.dumps([e.type, e.payload]) for e in seat.stream.events]
    received += [json.dumps(r.body) for r in (*socket.received, *sse.received)]
    assert len(received) > 20
    assert leaks("\n".join(received)) == []
    await socket.close()
    await sse.close()
    # One that opens the path without an environment sees no more, and takes nothing away.
    second = await client.workspace(secret_project)
    assert leaks(json.dumps(second.answer)) == []


async def test_refusals_do_not_repeat_secrets_from_the_request(
    secretive: Server, connect: Connect, tmp_path: Path
) -> None:
    client = connect(secretive)
    secret = GIVEN["ENV_SECRET"]
    client_id = str(uuid.uuid4())
    for body in (
        {"path": str(tmp_path), "client_id": client_id, "env": [secret]},
        {"path": str(tmp_path), "client_id": client_id, "env": [f"A={secret}", 7]},
        {"path": str(tmp_path), "client_id": client_id, "env": {"A": secret}},
        {"path": str(tmp_path), "client_id": client_id, "env": [f"A={secret}\0"]},
        {"path": str(tmp_path / "no"), "client_id": client_id, "env": [f"A={secret}"]},
        {"path": str(tmp_path), "client_id": secret, "env": [f"A={secret}"]},
    ):
        async with client.http.session.post(
            f"{client.http.url}/v1/workspaces", json=body
        ) as answer:
            assert answer.status == 400
            assert leaks(await answer.read()) == []
    raw = json.dumps({"path": str(tmp_path), "env": [f"A={secret}"]})[:-1].encode()
    async with client.http.session.post(f"{client.http.url}/v1/workspaces", data=raw) as answer:
        assert answer.status == 400
        assert leaks(await answer.read()) == []


async def test_secrets_are_stored_encrypted_in_private_files(
    make_a_server: MakeServer, connect: Connect, secret_project: Path
) -> None:
    old_mask = os.umask(0)  # the server must see to its files itself
    try:
        server = make_a_server(Shape.EMBEDDED, env={"CRUSH_SECRET_KEY": SERVERS_OWN})
        await asyncio.to_thread(server.start)
        seat = await take_seat(connect(server), secret_project, env=ENV)
        session = await seat.workspace.session()
        await seat.workspace.prompt(session, "hello [[n=2]]", "r")
        await seat.stream.run_complete(session, "r")
        modes = {
            file.relative_to(server.data_dir).as_posix(): stat.S_IMODE(file.stat().st_mode)
            for file in server.data_dir.rglob("*")
        }
        assert stat.S_IMODE(server.data_dir.stat().st_mode) == 0o700
        assert modes["secret.key"] == 0o600
        assert modes["server.json"] == 0o600
        open_files = {name: oct(mode) for name, mode in modes.items() if mode & 0o077}
        assert open_files == {}
        assert leaks((server.data_dir / "server.json").read_bytes()) == []
        for _ in range(2):  # while it runs, with its write-ahead log, and after it
            for file in server.data_dir.rglob("*"):
                if file.is_file():
                    assert leaks(file.read_bytes()) == [], file.name
            if server.alive:
                await asyncio.to_thread(server.stop)
        # What was sealed is opened by the next start.
        await asyncio.to_thread(server.start)
        again = await take_seat(connect(server), secret_project)
        await again.workspace.prompt(session, bash('test -n "$ENV_SECRET" && touch has-it'), "t")
        await again.workspace.grant(await permission_request(again, session))
        await again.stream.run_complete(session, "t")
        assert (secret_project / "has-it").exists()
    finally:
        os.umask(old_mask)


async def test_a_tool_s_environment_holds_no_secret_of_the_server(
    secretive: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(secretive)
    database_url = secretive.env.get("DATABASE_URL", "nothing-of-the-kind")
    for name, env in (("given", ["A=B", f"PATH={os.environ['PATH']}"]), ("none", None)):
        path = project(name)
        seat = await take_seat(client, path, env=env, yolo=True)
        session = await seat.workspace.session()
        await run_call(
            seat, session, bash("env > env.txt; tr '\\0' '\\n' < /proc/$$/environ >> env.txt")
        )
        shown = (path / "env.txt").read_text()
        assert "PATH=" in shown
        assert leaks(shown) == []
        assert database_url not in shown
        for variable in ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "DJANGO_SETTINGS_MODULE"):
            assert f"{variable}=" not in shown
        assert results(await seat.workspace.messages(session))[-1]["is_error"] is False


# Looks for a text in what the kernel shows of every process, and in the memory of some.
LOOK = """
import os, sys
text = sys.argv[1].encode()[::-1]
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            if text in file.read():
                print("found in the environment of", pid)
    except OSError:
        pass
for pid in sys.argv[2:]:
    try:
        open(f"/proc/{pid}/mem", "rb").close()
    except OSError as error:
        print("memory:", type(error).__name__)
    else:
        print("memory: readable")
"""


@linux_only
async def test_a_tool_cannot_read_the_server_s_secrets_from_proc(
    secretive: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("proc")
    (path / "look.py").write_text(LOOK)
    seat = await take_seat(connect(secretive), path, yolo=True)
    session = await seat.workspace.session()
    pids = secretive.pids()
    command = f"{sys.executable} look.py {SERVERS_OWN[::-1]} {' '.join(map(str, pids))}"
    shown = await run_call(seat, session, bash(command))
    assert shown["content"].splitlines() == ["memory: PermissionError"] * len(pids)


async def test_a_configuration_cannot_read_the_server_s_own_variables(
    secretive: Server, connect: Connect, project: MakeProject, echo: Echo
) -> None:
    path = project(
        "thief",
        providers={
            "fake": {
                **provider(echo.url, "${CRUSH_SECRET_KEY}-$DATABASE_URL"),
                "extra_headers": {"X-Stolen": "${CRUSH_SECRET_KEY:-none} ${DATABASE_URL:-none}"},
            }
        },
    )
    seat = await take_seat(connect(secretive), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, "steal", "steal")
    await seat.stream.run_complete(session, "steal")
    assert leaks(echo.seen) == []
    assert "postgres" not in echo.seen.lower()
