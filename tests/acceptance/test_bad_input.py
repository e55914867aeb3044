"""Whatever a client sends: a 4xx that names what is wrong, nothing stored, nothing loud in the log."""

import asyncio
import io
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from tests.acceptance.conversation import SHORT, Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.http import Http
from tests.acceptance.harness.native import NativeSocket, NativeSse
from tests.acceptance.harness.services import Services
from tests.acceptance.harness.shapes import Server, Shape, make_server
from tests.acceptance.harness.wire import Reply, Wire
from tests.acceptance.watching import LogWatch, stored

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


class Attacker:
    """Sends what is wrong, and holds the server to its answer."""

    def __init__(self, server: Server, seat: Seat, session: str) -> None:
        self.server = server
        self.seat = seat
        self.session = session
        self.url = f"/v1/workspaces/{seat.workspace.id}"
        self.log = LogWatch(server)
        self.before: Any = None

    async def begin(self) -> "Attacker":
        self.before = await stored(self.server, self.seat.workspace)
        return self

    async def refused(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        naming: str = "",
        status: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> str:
        """The message of the refusal."""
        places = {"ws": self.url, "sid": self.session, "wid": self.seat.workspace.id}
        for name, place in places.items():
            path = path.replace(f"{{{name}}}", place)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.seat.workspace.client.http.session.request(
            method,
            URL(self.server.url + path, encoded=True),
            data=None if body is None else io.BytesIO(data),
            headers=headers,
        ) as answer:
            text = await answer.text()
        what = f"{method} {path} {data[:200]!r}: {answer.status} {text[:500]}"
        assert 400 <= answer.status < 500, what
        assert status in (None, answer.status), what
        if method != "HEAD":
            assert "json" in answer.content_type, what
            message = str(json.loads(text)["message"])
            assert message, what
            assert naming in message, what
            assert "Traceback" not in message, what
            assert 'File "' not in message, what
            return message
        return ""

    async def nothing_happened(self) -> None:
        """And the server still works."""
        assert await stored(self.server, self.seat.workspace) == self.before
        assert self.log.loud() == []
        await self.seat.workspace.client.http.call("GET", "/v1/health")


@pytest.fixture(scope="module", params=list(Shape), ids=str)
def still_server(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    lent_services: Callable[[], Services],
) -> Iterator[Server]:
    """One server for this module, in which nothing lapses by itself while a test compares."""
    graces = {"CRUSH_SERVER_CREATE_GRACE": "3600", "CRUSH_SERVER_DETACH_GRACE": "3600"}
    server = make_server(
        request.param,
        tmp_path_factory.mktemp("still"),
        env=graces,
        services=lent_services() if request.param is Shape.SCALED else None,
    )
    server.start()
    yield server
    server.close()


@pytest.fixture
async def attacker(still_server: Server, connect: Connect, project: MakeProject) -> Attacker:
    seat = await take_seat(connect(still_server), project(uuid.uuid4().hex))
    # What an opened workspace tells by itself, soon after: nothing comes behind it.
    log = await NativeSse(seat.workspace.client.http, seat.workspace.id, after=0).open()
    await log.wait_for(lambda received: received.type == "skills.changed")
    await log.close()
    return await Attacker(still_server, seat, await seat.workspace.session()).begin()


CLIENT = "5a1d4d2e-3d54-4c3b-9a6e-111111111111"
SENT_FILE = {"file_path": "a", "file_name": "a", "mime_type": "text/plain", "content": "aGk="}
# Every endpoint that reads a body: a body that would be taken, and its fields.
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/v1/workspaces"): {
        "path": "/tmp",
        "client_id": CLIENT,
        "yolo": False,
        "debug": False,
        "data_dir": "",
        "env": ["A=B"],
        "channels": ["x"],
    },
    ("POST", "/v1/control"): {"command": "shutdown_if_idle"},
    ("POST", "{ws}/sessions"): {"title": "x"},
    ("PUT", "{ws}/sessions/{sid}"): {"title": "x"},
    ("POST", "{ws}/agent"): {
        "session_id": "{sid}",
        "prompt": SHORT,
        "run_id": "r",
        "attachments": [SENT_FILE],
    },
    ("POST", "{ws}/agent/init"): {"interactive": True},
    ("POST", "{ws}/permissions/skip"): {"skip": True},
    ("POST", "{ws}/permissions/grant"): {"permission": {"id": "x"}, "action": "allow"},
    ("POST", "{ws}/filetracker/read"): {"session_id": "{sid}", "path": "crush.json"},
    ("POST", f"{{ws}}/current-session?client_id={CLIENT}"): {"session_id": "{sid}"},
}
HUGE = 10**40
WRONG: dict[type, list[Any]] = {
    str: [7, 1.5, HUGE, True, [], ["a"], {}, {"a": "b"}, "\0", "a\0b"],
    bool: [0, 1, "true", "", [], {}, HUGE, None],
    list: [7, "a", True, {}, {"0": "a"}, [7], [None], [["a"]]],
    dict: [7, "a", True, [], [{}], None],
}
# null means "not given" where a client may leave the field out.
NULL_IS_NONE = {"run_id", "attachments", "env", "channels", "content"}


def wrong_bodies() -> list[Any]:
    cases = []
    for (method, path), body in BODIES.items():
        for name, value in body.items():
            wrong = list(WRONG[type(value)])
            if isinstance(value, str) and name not in NULL_IS_NONE:
                wrong.append(None)
            cases.append(pytest.param(method, path, name, wrong, id=f"{method} {path} {name}"))
    return cases


@pytest.mark.parametrize(("method", "path", "name", "wrong"), wrong_bodies())
async def test_it_refuses_every_wrong_type_of_every_field(
    attacker: Attacker, method: str, path: str, name: str, wrong: list[Any]
) -> None:
    body = {
        key: attacker.session if value == "{sid}" else value
        for key, value in BODIES[method, path].items()
    }
    for value in wrong:
        await attacker.refused(method, path, body | {name: value}, naming=name, status=400)
    await attacker.nothing_happened()


async def test_it_refuses_every_wrong_type_inside_of_lists_and_objects(attacker: Attacker) -> None:
    prompt = {"session_id": attacker.session, "prompt": SHORT}
    for name in SENT_FILE:
        for value in WRONG[str]:
            sent = [SENT_FILE, SENT_FILE | {name: value}]
            await attacker.refused(
                "POST",
                "{ws}/agent",
                prompt | {"attachments": sent},
                naming=f"attachments[1].{name}",
                status=400,
            )
    for name in ("id", "tool_call_id"):
        for value in WRONG[str]:
            await attacker.refused(
                "POST",
                "{ws}/permissions/grant",
                {"action": "allow", "permission": {"id": "x", name: value}},
                naming=f"permission.{name}",
                status=400,
            )
    await attacker.nothing_happened()


NOT_OBJECTS = [
    b"{nope",
    b"[]",
    b"null",
    b'"text"',
    b"17",
    b"\xff\xfe{}",
    b"\xef\xbb\xbf{}",
    b"{} {}",
    b"{'title': 1}",
    b"a=b&c=d",
    b'{"title": NaN, "path": NaN, "skip": NaN}',
    b'{"title": "\\ud800", "path": "\\ud800", "prompt": "\\udfff"}',
    b'{"title": "\xed\xa0\x80"}',  # a lone surrogate, as bytes
    b'{"a":' * 100_000,
    b"[" * 100_000,
    b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
    b"1" * 100_000,
    b'{"title": 1e999999}',
]


@pytest.mark.parametrize("raw", NOT_OBJECTS, ids=lambda raw: repr(raw[:20]))
async def test_it_refuses_a_body_that_is_no_json_object(attacker: Attacker, raw: bytes) -> None:
    for method, path in BODIES:
        await attacker.refused(method, path, raw, status=400)
        await attacker.refused(
            method, path, raw, status=400, headers={"Content-Type": "multipart/form-data"}
        )
    await attacker.nothing_happened()


async def test_it_refuses_ids_that_nobody_gave_out(attacker: Attacker) -> None:
    unknown = ["nope", str(uuid.uuid4()), "%00", "..%2f..", "x" * 5000, "%ED%A0%80", "%F0%9F%98%80"]
    calls: list[tuple[str, str, Any]] = [
        ("GET", "", None),
        ("GET", "/messages", None),
        ("GET", "/messages/user", None),
        ("GET", "/children", None),
        ("GET", "/history", None),
        ("GET", "/filetracker/files", None),
        ("PUT", "", {"title": "x"}),
        ("DELETE", "", None),
    ]
    work = [("POST", "/cancel"), ("POST", "/prompts/clear"), ("GET", "/prompts/list")]
    work += [("GET", "/prompts/queued"), ("GET", "")]
    for name in unknown:
        for method, rest, body in calls:
            await attacker.refused(method, f"{{ws}}/sessions/{name}{rest}", body, status=404)
        for method, rest in work:
            await attacker.refused(method, f"{{ws}}/agent/sessions/{name}{rest}", status=404)
        for rest in ("", "/agent", "/sessions", "/config", "/permissions/skip", "/providers"):
            await attacker.refused("GET", f"/v1/workspaces/{name}{rest}", status=404)
        for method, path in BODIES:
            if path.startswith("{ws}") and "sessions/" not in path:
                other = path.replace("{ws}", f"/v1/workspaces/{name}")
                body = BODIES[method, path]
                message = await attacker.refused(method, other, body)
                assert "not found" in message, (other, message)
        await attacker.refused("GET", f"/api/workspaces/{name}/snapshot", status=404)
        await attacker.refused("GET", f"/api/workspaces/{name}/events", status=404)
        events = f"/v1/workspaces/{name}/events?client_id={uuid.uuid4()}"
        await attacker.refused("GET", events, status=404)
    prompt = {"session_id": "nope", "prompt": "x"}
    await attacker.refused("POST", "{ws}/agent", prompt, status=404, naming="session")
    await attacker.nothing_happened()


async def test_it_takes_no_session_of_another_workspace(
    attacker: Attacker, project: MakeProject
) -> None:
    other = await attacker.seat.workspace.client.workspace(project("other"))
    foreign = await other.session()
    await attacker.begin()
    for method, rest, body in [
        ("GET", "/messages", None),
        ("PUT", "", {"title": "x"}),
        ("DELETE", "", None),
    ]:
        path = f"{{ws}}/sessions/{foreign}{rest}"
        await attacker.refused(method, path, body, status=404)
    await attacker.refused("POST", f"{{ws}}/agent/sessions/{foreign}/cancel", status=404)
    await attacker.refused("POST", "{ws}/agent", {"session_id": foreign, "prompt": "x"}, status=404)
    await attacker.refused(
        "GET", f"{{ws}}/filetracker/lastread?session_id={foreign}&path=a", status=404
    )
    await attacker.refused("GET", f"/api/workspaces/{{wid}}/snapshot?session={foreign}", status=404)
    await attacker.nothing_happened()


async def test_it_refuses_paths_that_cannot_be_a_workspace(
    attacker: Attacker, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path / "loop2")
    (tmp_path / "loop2").symlink_to(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    (tmp_path / "closed").mkdir()
    paths = [
        "",
        ".",
        "relative/path",
        "~",
        "~/x",
        "file:///tmp",
        "//no/such",
        "/\0",
        "/tmp\0/x",
        "/" + "x" * 300,
        "/" + "x" * 5000,
        "/x" * 2500,
        "/../" * 2000,
        "/dev/null",
        "/proc/self/mem",
        str(tmp_path / "nothing"),
        str(tmp_path / "file"),
        str(tmp_path / "file" / "below"),
        str(tmp_path / "loop"),
        str(tmp_path / "loop" / "below"),
        str(tmp_path / "dangling"),
        "/tmp/\n",
        "/tmp/\x1b[31m",
        "/tmp/\u202e",
    ]
    for path in paths:
        body = {"path": path, "client_id": CLIENT}
        await attacker.refused("POST", "/v1/workspaces", body, naming="path", status=400)
    await attacker.nothing_happened()


async def test_it_refuses_client_ids_that_are_no_uuids(attacker: Attacker, tmp_path: Path) -> None:
    for client_id in ("", "x", "x" * 36, CLIENT + "x", "０" * 36, "x" * 5000, CLIENT[:-1]):
        body = {"path": str(tmp_path), "client_id": client_id}
        await attacker.refused("POST", "/v1/workspaces", body, naming="client_id", status=400)
        if client_id.isascii():
            for method, path in [
                ("GET", f"{{ws}}/events?client_id={client_id}"),
                ("DELETE", f"{{ws}}?client_id={client_id}"),
                ("POST", f"{{ws}}/current-session?client_id={client_id}"),
                ("GET", f"/api/workspaces/{{wid}}/events?client_id={client_id}"),
            ]:
                if not client_id and path.startswith("/api"):
                    continue  # there it may be left out
                await attacker.refused(
                    method, path, {"session_id": ""}, naming="client_id", status=400
                )
    await attacker.refused("DELETE", "/v1/clients/x", naming="client_id", status=400)
    await attacker.nothing_happened()


async def test_it_refuses_prompts_of_nothing_and_of_ten_megabytes(attacker: Attacker) -> None:
    for prompt in ("", "x" * 10_000_000, "\U0001f600" * 2_500_000):
        body = {"session_id": attacker.session, "prompt": prompt, "run_id": "r"}
        await attacker.refused("POST", "{ws}/agent", body, naming="prompt", status=400)
    await attacker.nothing_happened()


async def test_it_refuses_actions_and_commands_that_it_does_not_know(attacker: Attacker) -> None:
    for action in ("", "ALLOW", "allow ", "grant", "x" * 90, "\u202e"):
        body = {"permission": {"id": "x"}, "action": action}
        await attacker.refused("POST", "{ws}/permissions/grant", body, naming="action", status=400)
    for command in ("", "restart", "shutdown ", "SHUTDOWN"):
        await attacker.refused(
            "POST", "/v1/control", {"command": command}, naming="command", status=400
        )
    await attacker.nothing_happened()


async def test_it_refuses_methods_and_paths_that_it_does_not_know(attacker: Attacker) -> None:
    for path in ("{ws}", "{ws}/agent", "{ws}/sessions/{sid}", "/v1/health", "/v1/workspaces"):
        for method in ("PATCH", "TRACE", "BREW", "PROPFIND", "OPTIONS"):
            await attacker.refused(method, path)
    for path in (
        "/v1",
        "/v1/",
        "/v1/nope",
        "/api",
        "/api/",
        "/api/nope",
        "{ws}/nope",
        "{ws}/agent/nope",
        "{ws}/sessions/{sid}/nope",
        "/v1/../v1/nope",
        "/v1/%2e%2e/%2e%2e/etc/passwd",
        "/v1/workspaces/%",
        "/v1/workspaces/%ff",
        "/v1/" + "x" * 10_000,
        "/v1//health",
    ):
        for method in ("GET", "POST", "DELETE"):
            await attacker.refused(method, path, {} if method == "POST" else None)
    await attacker.nothing_happened()


async def test_it_refuses_cursors_that_are_none(attacker: Attacker) -> None:
    for after in ("x", "-1", "1.5", "9" * 400, "%00", "0x1", "999999999", "１"):
        path = f"/api/workspaces/{{wid}}/events?after={URL(f'/?a={after}').raw_query_string[2:]}"
        await attacker.refused("GET", path)
        if after.isascii():
            await attacker.refused(
                "GET", "/api/workspaces/{wid}/events", headers={"Last-Event-ID": after}
            )
    await attacker.nothing_happened()


# -- hosts, origins, sizes


async def test_it_refuses_foreign_hosts_and_origins(attacker: Attacker) -> None:
    host = attacker.server.url.removeprefix("http://")
    port = host.rpartition(":")[2]
    bad_hosts = [
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "api.crush.localhost",  # only on the unix socket
        "169.254.169.254",
        "0.0.0.0",
        "127.1",
        "2130706433",
        "",
        "localhost:99999",
        "a@localhost",
        "localhost/evil",
    ]
    for bad in bad_hosts:
        for method, path in (("GET", "/v1/workspaces"), ("POST", "/v1/workspaces"), ("GET", "/")):
            async with Wire(attacker.server.url) as wire:
                reply = await wire.request(method, path, headers={"Host": bad})
                assert 400 <= reply.status < 500, (bad, reply.status)
                assert "Host" in reply.message
    bad_origins = ["http://evil.example", "null", "https://localhost", "http://localhost:1", "x"]
    for origin in bad_origins:
        await attacker.refused(
            "GET", "/v1/workspaces", status=403, naming="Origin", headers={"Origin": origin}
        )
        await attacker.refused(
            "POST",
            "{ws}/sessions",
            {"title": "x"},
            status=403,
            naming="Origin",
            headers={"Origin": origin},
        )
        events = f"{{ws}}/events?client_id={attacker.seat.workspace.client_id}"
        await attacker.refused("GET", events, status=403, headers={"Origin": origin})
        socket = NativeSocket(attacker.seat.workspace.client.http, attacker.seat.workspace.id)
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await socket.open(origin=origin)
        assert refusal.value.status in {400, 403}, origin
    socket = NativeSocket(attacker.seat.workspace.client.http, attacker.seat.workspace.id)
    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        await socket.open(headers={"Host": "evil.example"})
    assert refusal.value.status == 403
    # Our own origin passes, as a browser on this page sends it.
    same = {"Origin": attacker.server.url}
    await attacker.seat.workspace.client.http.call("GET", "/v1/workspaces", headers=same)
    await attacker.nothing_happened()


async def test_it_refuses_bodies_over_the_limit_however_they_are_sent(attacker: Attacker) -> None:
    limit = 32 * 1024 * 1024
    path = f"{attacker.url}/sessions"
    async with Wire(attacker.server.url) as wire:  # told, and refused before it is sent
        reply = await wire.request("POST", path, headers={"Content-Length": str(limit + 1)})
        assert reply.status == 413
        assert str(limit) in reply.message
    async with Wire(attacker.server.url) as wire:
        huge = "9" * 30
        reply = await wire.request("POST", path, headers={"Content-Length": huge})
        assert 400 <= reply.status < 500
    async with Wire(attacker.server.url) as wire:  # not told: counted
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        await wire.send(head.encode())
        chunk = b"x" * (1024 * 1024)
        answer = asyncio.create_task(wire.answer(60))
        with_size = b"%x\r\n%b\r\n" % (len(chunk), chunk)
        try:
            for _ in range(40):
                await wire.send(with_size)
                if answer.done():
                    break
        except ConnectionError:
            pass
        reply = await answer
        assert reply.status == 413
        assert str(limit) in reply.message
    await attacker.nothing_happened()


async def test_pages_answer_no_hostile_request_with_a_failure(attacker: Attacker) -> None:
    """What is not the API is Django's: it must not be the weak side."""
    sent = [
        ("GET", "/%00", b"", {}),
        ("GET", "/%ff%fe", b"", {}),
        ("GET", "/" + "x" * 8000, b"", {}),
        ("GET", "/nope?" + "a=b&" * 2000, b"", {}),
        ("GET", "/static/../manage.py", b"", {}),
        ("GET", "/static/%2e%2e/%2e%2e/manage.py", b"", {}),
        ("GET", "/static//etc/passwd", b"", {}),
        ("GET", "/static/%00", b"", {}),
        ("GET", "/admin/%00/", b"", {}),
        ("POST", "/admin/login/", b"\xff" * 1000, {"Content-Type": "text/plain; charset=nope"}),
        ("POST", "/admin/login/", b"a=%ff", {"Content-Type": "application/x-www-form-urlencoded"}),
        ("POST", "/admin/login/", b"x", {"Content-Type": "multipart/form-data; boundary=\xe9"}),
        ("POST", "/admin/login/", b"x", {"Content-Type": "multipart/form-data"}),
        ("POST", "/nope", b"{}", {"Content-Type": "application/json"}),
        ("BREW", "/admin/", b"", {}),
        ("GET", "/admin/", b"", {"Cookie": "sessionid=" + "x" * 5000 + "; csrftoken=\xff"}),
    ]
    for method, path, body, headers in sent:
        async with Wire(attacker.server.url) as wire:
            reply = await wire.request(method, path, headers=headers, body=body)
        what = (method, path[:80], headers, reply.status, reply.body[:300])
        assert reply.status in {200, 301, 302, 400, 403, 404, 405, 413}, what
        assert b"Traceback" not in reply.body, what
        assert b"root:" not in reply.body, what
        assert b"DJANGO_SETTINGS_MODULE" not in reply.body, what
    await attacker.nothing_happened()


async def test_a_client_that_waits_for_leave_to_send_is_answered(attacker: Attacker) -> None:
    body = b"{nope"
    head = (
        "POST /v1/control HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    async with Wire(attacker.server.url) as wire:
        await wire.send(head.encode())
        first = await wire.answer(5)
        assert first.status == 100
        await wire.send(body)
        assert (await wire.answer()).status == 400
    await attacker.nothing_happened()


# -- broken HTTP

BROKEN = [
    b"\0\0\0\0\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /v1/health\r\n\r\n",
    b"GET /v1/health HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nbroken\r\n\r\n",
    b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n: empty\r\n\r\n",
    b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nA b: c\r\n\r\n",
    b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    b"GET /v1/health HTTP/1.1\r\n\r\n",
    b"GET /v1/\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET http://evil.example/v1/health HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
    b"POST /v1/control HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/control HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    b"POST /v1/control HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
    b"POST /v1/control HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/control HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
    b"POST /v1/control HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n{}",
    b"POST /v1/control HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 5000 + b"\r\n",
    b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nA: " + b"x" * 200_000 + b"\r\n\r\n",
    b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
    b"* OPTIONS\r\n\r\n",
]


@pytest.mark.parametrize("sent", BROKEN, ids=lambda sent: repr(sent[:70]))
async def test_broken_requests_are_refused_or_dropped(attacker: Attacker, sent: bytes) -> None:
    async with Wire(attacker.server.url) as wire:
        await wire.send(sent)
        try:
            reply: Reply | None = await wire.answer(3)
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            reply = None  # it waits for the rest, or has closed
    if reply is not None:
        assert 400 <= reply.status < 500, reply.body
        assert b"Traceback" not in reply.body
    await attacker.nothing_happened()


async def test_half_sent_and_slow_requests_hold_nobody_up(attacker: Attacker) -> None:
    slow: list[Wire] = []
    for number in range(200):
        wire = await Wire(attacker.server.url).__aenter__()
        slow.append(wire)
        if number % 3 == 0:
            await wire.send(b"GET /v1/health HTTP/1.1\r\nHost: loc")
        elif number % 3 == 1:
            path = f"{attacker.url}/sessions"
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
            await wire.send(head.encode() + b'{"title": ')
    for _ in range(3):
        for wire in slow[::3]:
            await wire.send(b"a")
        await attacker.seat.workspace.client.http.call("GET", "/v1/health", timeout=5)
    await attacker.seat.workspace.prompt(attacker.session, SHORT, "beside")
    await attacker.seat.stream.run_complete(attacker.session, "beside")
    await attacker.begin()
    for wire in slow:
        await wire.__aexit__()
    await attacker.nothing_happened()


async def test_pipelined_requests_are_answered_in_order(attacker: Attacker) -> None:
    head = b"HTTP/1.1\r\nHost: localhost\r\n"
    good = b"GET /v1/version " + head + b"\r\n"
    body = b"{nope"
    bad = b"POST /v1/control " + head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    lost = b"GET /v1/nope " + head + b"\r\n"
    async with Wire(attacker.server.url) as wire:
        await wire.send((good + bad + lost) * 10)
        statuses = [(await wire.answer()).status for _ in range(30)]
    assert statuses == [200, 400, 404] * 10
    await attacker.nothing_happened()


# -- the socket

SOCKET_GARBAGE: list[Any] = [
    "",
    "x",
    "{nope",
    "[]",
    "null",
    "17",
    '"ping"',
    "[" * 100_000,
    '{"a":' * 50_000,
    {},
    {"command": None},
    {"command": 7},
    {"command": []},
    {"command": "nope"},
    {"command": "__class__"},
    {"command": "prompt"},
    {"command": "prompt", "text": 7},
    {"command": "prompt", "text": "x", "session_id": 7},
    {"command": "prompt", "text": "x", "session_id": "nope"},
    {"command": "prompt", "text": "x" * 2_000_000, "session_id": "nope"},
    {"command": "prompt", "text": "\0", "session_id": "nope"},
    {"command": "cancel"},
    {"command": "cancel", "session_id": []},
    {"command": "cancel", "session_id": "nope"},
    {"command": "answer"},
    {"command": "answer", "request_id": "x", "answer": "maybe"},
    {"command": "answer", "request_id": {}, "answer": "allow"},
    {"command": "ping", "id": "x" * 5000},
    {"command": "ping", "id": {"a": [[[[1]]]] * 500}},
    '{"command": "prompt", "text": "\\ud800", "session_id": "nope"}',
    '{"command": "ping", "id": 1e999}',
]


async def test_garbage_on_the_socket_is_answered_and_the_socket_lives(attacker: Attacker) -> None:
    http, workspace = attacker.seat.workspace.client.http, attacker.seat.workspace
    socket = await NativeSocket(http, workspace.id).open()
    for number, sent in enumerate(SOCKET_GARBAGE):
        await socket.send(sent)
        replies = [r for r in socket.received if r.type == "reply"]
        reply = await socket.wait_for(
            lambda r, n=number: r.type == "reply" and r is not None, start=_after(socket, number)
        )
        assert reply.body["ok"] is False, (sent if len(str(sent)) < 500 else "", reply.body)
        assert reply.body["message"], replies
    await socket.send({"command": "ping", "id": 1})
    pong = await socket.wait_for(lambda r: r.type == "reply" and r.body["id"] == 1)
    assert pong.body["ok"] is True
    await socket.close()
    await attacker.nothing_happened()


def _after(socket: NativeSocket, replies: int) -> int:
    """Where the events begin that came after so many replies."""
    seen = 0
    for index, received in enumerate(socket.received):
        if seen == replies:
            return index
        seen += received.type == "reply"
    return len(socket.received)


async def test_bytes_that_are_no_frames_end_only_their_own_socket(attacker: Attacker) -> None:
    path = f"/api/workspaces/{attacker.seat.workspace.id}/stream"
    handshake = (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ).encode()
    for garbage in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 64,
        b"\x81\x05hello",  # not masked
        b"\x81\xfe\xff\xff",  # a length, and nothing behind it
        b"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0",  # a frame of 2^63 bytes
        b"\x82\x80\0\0\0\0" * 1000,  # empty binary messages
        b"\x89\xfe\x00\x7e\0\0\0\0" + b"x" * 126,  # a ping that is too long
        b"\xc1\x80\0\0\0\0",  # a reserved bit
        b"\x81\x82\0\0\0\0\xff\xff",  # text that is not UTF-8
    ):
        async with Wire(attacker.server.url) as wire:
            await wire.send(handshake)
            assert (await wire.answer()).status == 101
            await wire.send(garbage)
            await asyncio.sleep(0)
    for headers in (
        {"Sec-WebSocket-Version": "99", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="},
        {"Sec-WebSocket-Version": "13"},
        {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "x"},
        {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "\xff" * 24},
    ):
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade"}
        async with Wire(attacker.server.url) as wire:
            reply = await wire.request("GET", path, headers=upgrade | headers)
            assert 400 <= reply.status < 500, (headers, reply.body)
    http: Http = attacker.seat.workspace.client.http
    for after in ("x", "-1", "99999999", "9" * 300):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await NativeSocket(http, attacker.seat.workspace.id, after=after).open()
        assert 400 <= refusal.value.status < 500
    for unknown in ("nope", "%00"):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await NativeSocket(http, unknown).open()
        assert 400 <= refusal.value.status < 500
    await attacker.nothing_happened()


# -- broken configuration


async def test_a_broken_configuration_is_told_and_the_workspace_opens(
    still_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("broken")
    broken = path / "crush.json"
    broken.write_text('{\n  "options": {},\n  "providers": {,}\n}')
    log = LogWatch(still_server)
    seat = await take_seat(connect(still_server), path)
    where = f"{broken}:3:17"
    problems = seat.workspace.answer["config"]["problems"]
    assert any(problem.startswith(where) for problem in problems), problems
    assert (await seat.workspace.config())["problems"] == problems
    await seat.workspace.client.workspace(path)  # who comes next has it read anew
    told = [line for line in log.text().splitlines() if where in line]
    assert len(told) == 1, told
    assert " warning " in told[0]
    assert f"workspace={seat.workspace.id}" in told[0]
    # With what is left: the model that needs no configuration.
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, "hello", "works")
    assert "error" not in await seat.stream.run_complete(session, "works")
    assert log.loud() == []


async def test_a_configuration_with_one_wrong_key_keeps_the_others(
    still_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("half", permissions={"allowed_tools": 7}, options={"disabled_tools": "bash"})
    log = LogWatch(still_server)
    seat = await take_seat(connect(still_server), path)
    problems = "\n".join(seat.workspace.answer["config"]["problems"])
    assert str(path / "crush.json") in problems
    assert "permissions.allowed_tools" in problems
    assert "options.disabled_tools" in problems
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, SHORT, "works")
    assert (await seat.stream.run_complete(session, "works"))["text"].startswith("word0")
    assert log.loud() == []
