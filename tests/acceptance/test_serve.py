"""Starting, listening, stopping, and who holds the server and its workspaces open."""

import asyncio
import json
import re
import socket
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.acceptance.calling import bash, eventually
from tests.acceptance.conversation import roles_and_finishes, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.environment import manage, server_environment
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.native import NativeSocket, NativeSse
from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.processes import Process
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.harness.wire import Wire
from tests.acceptance.watching import LogWatch

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeServer = Callable[..., Server]
Serve = Callable[..., Process]

EXIT_SECONDS = 20  # on a busy machine; what a quiet one takes is asserted where it matters


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """`serve("--host", …, data="name", VARIABLE="value")`: a started `manage.py serve`."""
    started: list[Process] = []

    def start(*arguments: str, data: str = "data", **env: str) -> Process:
        number = len(started)
        process = manage(
            f"serve {number}",
            ["serve", *arguments],
            env=server_environment(tmp_path / "home", tmp_path / data, env),
            log=tmp_path / f"serve-{number}.log",
        )
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill9()


def refused_to_start(process: Process) -> str:
    """What it says; one sentence, and no stack trace."""
    assert process.wait(EXIT_SECONDS) == 1
    said = process.log_text()
    assert "Traceback" not in said
    assert "Serving" not in said
    assert len(said.strip().splitlines()) == 1, said
    return said


# -- where it listens


@pytest.mark.parametrize(
    "host",
    [
        "tcp://0.0.0.0:{port}",
        "tcp://127.0.0.1.example.com:{port}",
    ],
)
def test_it_refuses_to_listen_where_others_could_reach_it(serve: Serve, host: str) -> None:
    said = refused_to_start(serve("--host", host.format(port=free_port())))
    assert "loopback" in said
    assert "127.0.0.1" in said  # what to do instead


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:80",
        "tcp://127.0.0.1:x",
        "unix://relative",
        "unix:///no/such/folder/x.sock",
    ],
)
def test_it_says_what_is_wrong_with_an_address(serve: Serve, host: str) -> None:
    refused_to_start(serve("--host", host))


def test_a_port_that_is_taken_is_told(serve: Serve) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        host = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        assert "in use" in refused_to_start(serve("--host", host))


def test_port_zero_takes_a_free_one_and_says_which(serve: Serve, tmp_path: Path) -> None:
    process = serve("--host", "tcp://127.0.0.1:0")
    line = process.wait_for_line("Serving", 60)
    found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
    assert found is not None
    assert int(found[1]) > 0
    facts = json.loads((tmp_path / "data" / "server.json").read_text())
    assert facts["url"] == found[0]
    assert facts["pid"] == process.pid
    assert process.stop() == 0
    assert not (tmp_path / "data" / "server.json").exists()


async def test_a_unix_socket_is_its_user_s_alone_and_has_its_own_name(
    serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "s.sock"
    process = serve("--host", f"unix://{path}")
    process.wait_for_line("Serving", 60)
    assert stat.S_ISSOCK(path.stat().st_mode)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for name in ("api.crush.localhost", "localhost"):
        async with Wire(f"unix://{path}") as wire:
            reply = await wire.request("GET", "/v1/version", headers={"Host": name})
            assert reply.status == 200
    async with Wire(f"unix://{path}") as wire:
        reply = await wire.request("GET", "/v1/version", headers={"Host": "evil.example"})
        assert reply.status == 403
    body = json.dumps({"path": str(tmp_path), "client_id": str(uuid.uuid4())}).encode()
    async with Wire(f"unix://{path}") as wire:
        name = {"Host": "api.crush.localhost"}
        reply = await wire.request("POST", "/v1/workspaces", headers=name, body=body)
        assert reply.status == 200
    # Another server does not take the socket away, nor is it shut out by a stale one.
    said = refused_to_start(serve("--host", f"unix://{path}", data="other"))
    assert "in use" in said
    process.kill9()
    assert path.exists()
    again = serve("--host", f"unix://{path}")
    again.wait_for_line("Serving", 60)
    assert again.stop() == 0
    assert not path.exists()


def test_a_file_in_the_place_of_the_socket_is_left_alone(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("mine")
    refused_to_start(serve("--host", f"unix://{path}"))
    assert path.read_text() == "mine"


# -- the data folder


def test_the_first_start_makes_its_folder_and_the_second_finds_it(
    serve: Serve, tmp_path: Path
) -> None:
    for number in range(2):
        began = time.monotonic()
        process = serve("--host", "tcp://127.0.0.1:0", data="not/there/yet")
        process.wait_for_line("Serving", 60)
        print(f"start {number + 1}: {time.monotonic() - began:.2f} s to listen")
        assert process.stop() == 0
        assert process.log_text().splitlines()[-1] == "Stopped"
    folder = tmp_path / "not" / "there" / "yet"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "server.sqlite3").exists()


def test_a_second_server_on_the_same_data_is_refused(serve: Serve, tmp_path: Path) -> None:
    first = serve("--host", "tcp://127.0.0.1:0")
    first.wait_for_line("Serving", 60)
    said = refused_to_start(serve("--host", "tcp://127.0.0.1:0"))
    assert "already runs" in said
    assert str(tmp_path / "data") in said
    assert first.stop() == 0


def test_a_data_folder_that_cannot_be_one_is_told(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for data in ("file", "file/below"):
        assert "CRUSH_DATA_DIR" in refused_to_start(serve(data=data))
    assert "CRUSH_DATA_DIR" in refused_to_start(serve(data="/proc/nope"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CRUSH_SERVER_DETACH_GRACE", "soon"),
        ("DATABASE_URL", "mysql://localhost/x"),
        ("CRUSH_LOG_LEVEL", "LOUD"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(
    serve: Serve, name: str, value: str
) -> None:
    process = serve("--host", "tcp://127.0.0.1:0", **{name: value})
    assert process.wait(EXIT_SECONDS) != 0
    said = process.log_text()
    assert name in said.splitlines()[-1]
    assert "Traceback" not in said


# -- its end


async def test_it_stops_quickly_while_streams_are_attached(
    server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(server)
    seats = [await take_seat(client, project(f"p{n}")) for n in range(3)]
    workspace = seats[0].workspace
    ws = await NativeSocket(client.http, workspace.id).open()
    sse = await NativeSse(client.http, workspace.id).open()
    began = time.monotonic()
    await asyncio.to_thread(server.stop)
    seconds = time.monotonic() - began
    assert seconds < 3, seconds
    for seat in seats:
        await seat.stream.wait_end()
    await ws.wait_end()
    await sse.wait_end()
    assert ws.close_code == 1012
    for process in server.processes():
        assert process.log_text().splitlines()[-1] == "Stopped"


async def test_a_run_that_streams_at_the_stop_ends_exactly_once(
    make_a_server: MakeServer, shape: Shape, connect: Connect, project: MakeProject
) -> None:
    graces = {"CRUSH_SERVER_DETACH_GRACE": "600", "CRUSH_POLL": "0.2", "CRUSH_LEASE": "2"}
    server = make_a_server(shape, env=graces)
    await asyncio.to_thread(server.start)
    path = project("stopped")
    log = LogWatch(server)
    seat = await take_seat(connect(server), path, yolo=True)
    streaming, between, queued = [await seat.workspace.session() for _ in range(3)]
    await seat.workspace.prompt(streaming, "[[n=2000 d=20]]", "streaming")
    step = json.dumps({"command": "echo step >> steps; sleep 0.3", "description": "s"})
    await seat.workspace.prompt(between, f"[[tools=5 bash {step}]] [[n=2]]", "between")
    await seat.workspace.prompt(queued, "[[n=2000 d=20 id=q]]", "ahead")
    await seat.workspace.prompt(queued, "[[n=3]]", "behind")
    await seat.stream.words(streaming, 3)
    await seat.stream.words(queued, 3)
    await eventually((path / "steps").exists, "a step was done")
    began = time.monotonic()
    await asyncio.to_thread(server.stop)
    seconds = time.monotonic() - began
    assert seconds < 3.5, seconds
    await asyncio.to_thread(server.start)
    client = connect(server)
    again = await take_seat(client, path, yolo=True)
    async with asyncio.timeout(60):
        while (await again.workspace.agent())["is_busy"]:
            await asyncio.sleep(0.05)
    native = await NativeSse(client.http, again.workspace.id, after=0).open()
    await native.wait_for(lambda r: r.type == "stream.opened")
    ended = [r.body["data"]["run"] for r in native.received if r.type == "run.finished"]
    outcomes = {run["run_id"]: run["outcome"] for run in ended}
    assert len(ended) == 4
    assert outcomes == {
        "streaming": "interrupted",
        "between": "completed",
        "ahead": "interrupted",
        "behind": "completed",
    }
    # Handed over between two steps: none was done twice, none was left out.
    assert (path / "steps").read_text().split() == ["step"] * 5
    messages = await again.workspace.messages(streaming)
    assert roles_and_finishes(messages) == [("user", "stop"), ("assistant", "error")]
    assert log.loud() == []
    await native.close()


async def test_requests_during_the_stop_are_answered_or_refused(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(embedded_server)
    workspace = await client.workspace(project())
    session = await workspace.session()
    stopping = asyncio.create_task(asyncio.to_thread(embedded_server.stop))
    accepted: set[str] = set()
    while not stopping.done():
        run_id = str(uuid.uuid4())
        try:
            await workspace.prompt(session, "[[n=1]]", run_id)
        except UnexpectedStatus as error:
            assert error.status == 503, error  # noqa: PT017
        except (aiohttp.ClientError, ConnectionError):
            continue
        else:
            accepted.add(run_id)
    await stopping
    await asyncio.to_thread(embedded_server.start)
    again = await take_seat(connect(embedded_server), workspace.path)
    async with asyncio.timeout(60):
        while (await again.workspace.agent())["is_busy"]:
            await asyncio.sleep(0.05)
    assert len(await again.workspace.user_messages(session)) >= len(accepted)


async def test_the_log_says_what_happens_with_its_ids(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(embedded_server)
    seat = await take_seat(client, project("named"))
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, "[[n=2]]", "a-run")
    await seat.stream.run_complete(session, "a-run")
    await seat.stream.close()
    await seat.workspace.release()
    text = embedded_server.log_text()
    where = f"workspace={seat.workspace.id}"
    for what, more in [
        ("workspace opened", ""),
        ("run started", f" session={session} run="),
        ("run finished", f" session={session} run="),
        ("workspace closed", ""),
    ]:
        wanted = re.compile(rf"Z info \S+ {what}.* {where}{more}")
        assert wanted.search(text), (what, text)
    assert "Serving on" in text
    assert "[[n=2]]" not in text  # what people say is not the log's business


# -- who holds it open


async def test_a_server_of_a_person_obeys_no_client(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(embedded_server)
    for command in ("shutdown", "shutdown_if_idle"):
        await client.http.call("POST", "/v1/control", {"command": command}, expect=409)
    await client.workspace(project())
    for command in ("shutdown", "shutdown_if_idle"):
        await client.http.call("POST", "/v1/control", {"command": command}, expect=409)
    await client.http.call("GET", "/v1/health")


@pytest.mark.parametrize("command", ["shutdown", "shutdown_if_idle"])
async def test_a_server_of_a_client_obeys_when_no_workspace_lives(
    serve: Serve, tmp_path: Path, command: str
) -> None:
    process = serve("--host", "tcp://127.0.0.1:0", "--idle-exit")
    url = process.wait_for_line("Serving", 60).split()[2]
    async with Client(url) as client:
        workspace = await client.workspace(tmp_path)
        refused = await _message(client, {"command": command})
        assert refused[0] == 409
        await workspace.release()
        status, _ = await _message(client, {"command": command})
        assert status == 200
    assert await asyncio.to_thread(process.wait, EXIT_SECONDS) == 0


async def _message(client: Client, body: object) -> tuple[int, str]:
    url = f"{client.http.url}/v1/control"
    async with client.http.session.post(url, json=body) as answer:
        return answer.status, await answer.text()


async def test_a_server_of_a_client_ends_when_nobody_is_left(serve: Serve, tmp_path: Path) -> None:
    graces = {"CRUSH_SERVER_CREATE_GRACE": "0.5", "CRUSH_SERVER_DETACH_GRACE": "0.1"}
    process = serve(
        "--host", "tcp://127.0.0.1:0", "--idle-exit", CRUSH_SERVER_IDLE_TIMEOUT="1", **graces
    )
    url = process.wait_for_line("Serving", 60).split()[2]
    async with Client(url) as client:
        seat = await take_seat(client, tmp_path)
        await asyncio.sleep(2)
        assert process.alive  # somebody is there
        await seat.stream.close()
    assert await asyncio.to_thread(process.wait, EXIT_SECONDS) == 0
    assert process.log_text().splitlines()[-1] == "Stopped"


# -- who holds a workspace open


@pytest.mark.server_env(CRUSH_SERVER_CREATE_GRACE="0.4")
async def test_a_claim_without_a_stream_lapses(
    server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(server)
    workspace = await client.workspace(project())
    assert (await workspace.get())["id"] == workspace.id
    await _closed(client, workspace.id)


@pytest.mark.server_env(CRUSH_SERVER_CREATE_GRACE="0.4", CRUSH_SERVER_DETACH_GRACE="2")
async def test_a_client_that_returns_within_its_grace_keeps_the_workspace(
    server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(server)
    seat = await take_seat(client, project())
    await asyncio.sleep(1)  # the stream holds it past the create grace
    for _ in range(3):
        await seat.stream.abort()
        await asyncio.sleep(0.8)
        seat.stream = await seat.workspace.attach()
    await asyncio.sleep(2.5)
    assert (await seat.workspace.get())["id"] == seat.workspace.id
    await seat.stream.close()
    left = time.monotonic()
    await _closed(client, seat.workspace.id)
    assert time.monotonic() - left > 1


@pytest.mark.server_env(CRUSH_SERVER_DETACH_GRACE="0.3")
async def test_two_streams_of_one_client_are_one_claim(
    server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(server)
    seat = await take_seat(client, project())
    second = await seat.workspace.attach()
    await seat.stream.close()
    await asyncio.sleep(1)
    assert (await seat.workspace.get())["id"] == seat.workspace.id
    await second.close()
    await _closed(client, seat.workspace.id)


async def _closed(client: Client, workspace_id: str) -> None:
    async with asyncio.timeout(20):
        while workspace_id in [w["id"] for w in await client.workspaces()]:
            await asyncio.sleep(0.05)


async def test_a_release_closes_at_once_and_ends_the_client_s_stream(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(shared_server)
    seat = await take_seat(client, project("released"))
    await seat.workspace.release()
    await seat.workspace.get(expect=404)
    await seat.stream.wait_end()
    with pytest.raises(UnexpectedStatus) as refusal:
        await seat.workspace.release()
    assert refusal.value.status == 404


async def test_a_retired_client_comes_back_nowhere(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    client, path = connect(shared_server), project("retired")
    stays = await take_seat(client, path)
    seat = await take_seat(client, path)
    client_id = seat.workspace.client_id
    await client.retire(client_id)
    await client.retire(client_id)  # twice is no error
    await seat.stream.wait_end()
    for again in (client_id, client_id.upper()):
        with pytest.raises(UnexpectedStatus) as refusal:
            await client.workspace(path, client_id=again)
        assert refusal.value.status == 409
    with pytest.raises(UnexpectedStatus) as refusal:
        await seat.workspace.attach()
    assert refusal.value.status == 409
    assert (await stays.workspace.get())["id"] == stays.workspace.id


async def test_current_sessions_are_counted_while_their_clients_stream(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    client, path = connect(shared_server), project("current")
    unattached = await client.workspace(path)
    session, other = await unattached.session(), await unattached.session()
    await unattached.set_current(session, expect=409)
    a, b = await take_seat(client, path), await take_seat(client, path)

    async def counts() -> list[int]:
        shown = [await unattached.get_session(one) for one in (session, other)]
        return [one["attached_clients"] for one in shown]

    await a.workspace.set_current(session)
    await b.workspace.set_current(session)
    assert await counts() == [2, 0]
    await b.workspace.set_current(other)
    assert await counts() == [1, 1]
    told = await a.stream.wait_for(
        lambda e: (
            e.type == "session" and e.payload["id"] == other and e.payload["attached_clients"] == 1
        )
    )
    assert told.action == "updated"
    await b.workspace.set_current("nope", expect=404)
    await b.workspace.set_current("")
    assert await counts() == [1, 0]
    await a.stream.abort()
    async with asyncio.timeout(10):
        while await counts() != [0, 0]:
            await asyncio.sleep(0.02)
    await a.workspace.set_current(session, expect=409)


async def test_a_run_holds_its_workspace_open_until_it_ends(
    make_a_server: MakeServer, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(Shape.EMBEDDED, env={"CRUSH_SERVER_DETACH_GRACE": "0.1"})
    await asyncio.to_thread(server.start)
    client, path = connect(server), project("held")
    seat = await take_seat(client, path, yolo=True)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash("sleep 1; echo done > done.txt"), "held")
    await seat.workspace.release()  # at once, and the run is not asked
    assert (await seat.workspace.get())["id"] == seat.workspace.id
    assert not (path / "done.txt").exists()
    await _closed(client, seat.workspace.id)
    assert (path / "done.txt").exists()
