"""Who may use a running server: its own user without a credential, and nobody else.

A tool of the server runs as the same user and may only read and prompt, however it connects.
"""

import asyncio
import json
import os
import shutil
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.acceptance.calling import bash, eventually, run_call
from tests.acceptance.conversation import take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.processes import Process
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at Linux")
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

# Sends each request of the list and writes the statuses, also as a process of another kind.
ATTACK = """
import http.client, json, os, socket, sys, time
address, requests, result, how = sys.argv[1:]

class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(address)

def send(method, path, body):
    if address.startswith("/"):
        connection = Unix("api.crush.localhost")
    else:
        connection = http.client.HTTPConnection(address)
    connection.request(method, path, json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    return [answer.status, answer.read().decode()]

if how == "daemon":
    if os.fork():
        deadline = time.time() + 60
        while not os.path.exists(result) and time.time() < deadline:
            time.sleep(0.05)
        sys.exit()
    os.setsid()
    if os.fork():
        os._exit(0)
found = [send(*request) for request in json.loads(requests)]
with open(result + ".new", "w") as file:
    json.dump(found, file)
os.replace(result + ".new", result)
"""

PERSONS_ONLY: list[tuple[str, str, Any]] = [
    ("POST", "/permissions/grant", {"permission": {"id": "x"}, "action": "allow"}),
    ("POST", "/permissions/skip", {"skip": True}),
    ("POST", "/permissions/mode", {"mode": "yolo"}),
    ("POST", "/questions/answer", {"batch_request_id": "x", "responses": []}),
    ("POST", "/questions/cancel", {"batch_request_id": "x"}),
    ("POST", "/agent/sessions/SESSION/shell", {"command": "id"}),
    ("POST", "/agent/sessions/SESSION/cancel", {}),
    ("POST", "/agent/sessions/SESSION/prompts/clear", {}),
    ("DELETE", "/sessions/SESSION", None),
    ("POST", "/config/set", {"scope": "global", "key": "options.debug", "value": True}),
    ("POST", "/config/remove", {"scope": "global", "key": "options.debug"}),
    ("POST", "/config/provider-key", {"provider_id": "x", "api_key": "y"}),
    ("POST", "/mcp/docker/enable", {}),
    ("POST", "/lsps/stop", {}),
]


def attacks(base: str, session: str) -> list[tuple[str, str, Any]]:
    """What only a person may do, then what a tool may do."""
    return [
        *((m, base + path.replace("SESSION", session), body) for m, path, body in PERSONS_ONLY),
        ("POST", "/api/trust", {"path": "/", "answer": "allow"}),
        ("POST", "/v1/control", {"command": "shutdown"}),
        ("GET", f"{base}/sessions", None),
        ("POST", f"{base}/agent", {"session_id": session, "prompt": "[[n=1]]"}),
    ]


def prepared(
    folder: Path, requests: list[tuple[str, str, Any]], address: str, how: str
) -> tuple[Path, str]:
    """The file with the results of an attack, and the command that carries it out."""
    (folder / "attack.py").write_text(ATTACK)
    (folder / "requests.json").write_text(json.dumps(requests))
    result = folder / "result.json"
    command = f'{sys.executable} attack.py {address} "$(cat requests.json)" {result} {how}'
    if how == "background":
        command = f"({command} &) ; while [ ! -e {result} ]; do sleep 0.05; done"
    return result, command


def check(result: Path) -> None:
    *refused, read, prompted = json.loads(result.read_text())
    assert len(refused) == len(PERSONS_ONLY) + 2
    for status, body in refused:
        assert status == 403, body
        refusal = json.loads(body)
        assert "tool" in (refusal.get("message") or refusal["detail"]), body
    assert read[0] == 200, read
    assert prompted[0] in {200, 202}, prompted


@linux_only
@pytest.mark.parametrize("how", ["plain", "background", "daemon"])
async def test_a_tool_may_only_read_and_prompt(
    shared_server: Server, connect: Connect, project: MakeProject, how: str
) -> None:
    folder = project(f"attack-{how}")
    seat = await take_seat(connect(shared_server), folder, yolo=True)
    address = shared_server.url.removeprefix("http://")
    base = f"/v1/workspaces/{seat.workspace.id}"
    requests = attacks(base, await seat.workspace.session())
    result, command = prepared(folder, requests, address, how)
    await run_call(seat, await seat.workspace.session(), bash(command))
    check(result)


@linux_only
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_curl_in_a_command_cannot_answer_its_own_request(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    folder = project("curl")
    seat = await take_seat(connect(shared_server), folder, yolo=True)
    session = await seat.workspace.session()
    url = f"{shared_server.url}/v1/workspaces/{seat.workspace.id}/permissions/skip"
    curl = f"curl -s -o out.json -w '%{{http_code}}' -d '{{\"skip\": true}}' {url}"
    result = await run_call(seat, session, bash(curl))
    assert "403" in result["content"]
    assert "tool" in json.loads((folder / "out.json").read_text())["message"]


@linux_only
async def test_a_tool_may_only_read_and_prompt_over_the_socket_file(
    serve: Callable[..., Process], tmp_path: Path, project: MakeProject
) -> None:
    path = tmp_path / "s"
    serve("--host", f"unix://{path}", CRUSH_TRUST="all").wait_for_line("Serving", 60)
    folder = project("unix")
    connector = aiohttp.UnixConnector(str(path))
    async with aiohttp.ClientSession("http://api.crush.localhost", connector=connector) as http:

        async def call(method: str, address: str, body: Any = None) -> Any:
            async with http.request(method, address, json=body) as answer:
                assert answer.status in {200, 202}, await answer.text()
                return json.loads(await answer.text() or "null")

        opening = {"path": str(folder), "client_id": str(uuid.uuid4()), "yolo": True}
        base = f"/v1/workspaces/{(await call('POST', '/v1/workspaces', opening))['id']}"
        sessions = [(await call("POST", f"{base}/sessions", {}))["id"] for _ in range(2)]
        result, command = prepared(folder, attacks(base, sessions[0]), str(path), "plain")
        await call("POST", f"{base}/agent/init")
        prompt = {"session_id": sessions[1], "prompt": bash(command)}
        await call("POST", f"{base}/agent", prompt)
        await eventually(result.exists, "the attack's result")
        check(result)


async def status_of(url: str, **headers: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as http, http.get(url, headers=headers) as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize(
    "name", ["Origin", "Sec-Fetch-Site", "Via", "Forwarded", "X-Forwarded-For"]
)
async def test_a_browser_or_a_proxy_is_not_the_owner(shared_server: Server, name: str) -> None:
    value = {"Origin": shared_server.url, "Sec-Fetch-Site": "same-origin"}.get(name, "for=x")
    url = f"{shared_server.url}/v1/workspaces"
    assert (await status_of(url))[0] == 200
    status, body = await status_of(url, **{name: value})
    assert status == 401
    assert set(json.loads(body)) == {"message"}
    assert (await status_of(f"{shared_server.url}/v1/health", **{name: value}))[0] == 200


@linux_only
@root_only
async def test_another_user_of_the_machine_stays_out(shared_server: Server) -> None:
    code = (
        "import encodings.idna, http.client, os, sys\n"
        "os.setuid(65534)\n"
        "for method, path in [('GET', '/v1/workspaces'), ('POST', '/v1/workspaces'),"
        " ('GET', '/v1/version'), ('GET', '/v1/health')]:\n"
        "    connection = http.client.HTTPConnection(sys.argv[1])\n"
        "    connection.request(method, path, '{}', {'content-type': 'application/json'})\n"
        "    print(connection.getresponse().status)\n"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, shared_server.url.removeprefix("http://")),
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    assert printed.split() == [b"401", b"401", b"401", b"200"]
