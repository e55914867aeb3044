"""When language servers start and end, and servers that misbehave."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.calling import call, eventually, run_call, until
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server
from tests.acceptance.lsp.seats import BIN, DISABLED, ERROR, PYRIGHT, READY, STOPPED, double, sit
from tests.acceptance.marked import linux_only

Connect = Callable[[Server], Client]
pytestmark = pytest.mark.timeout(600)


async def test_clients_start_and_stop_servers_and_read_diagnostics(
    one_server: Server, connect: Connect, project_of: Callable[..., Path]
) -> None:
    configuration = {"py": PYRIGHT, "off": double("publish", disabled=True)}
    place = await sit(connect(one_server), project_of(lsp=configuration))
    seat, workspace = place.seat, place.seat.workspace
    while set(states := await place.lsps()) != {"off", "py"}:  # told once it is looked at
        await asyncio.sleep(0.02)
    assert states["off"]["state"] == DISABLED
    assert states["py"] == {
        "name": "py",
        "state": 0,
        "diagnostic_count": 0,
        "connected_at": "0001-01-01T00:00:00Z",
    }
    assert await workspace.call("GET", "/lsps/py/diagnostics") == {}
    (place.path / "shop.py").write_text("undefined_thing\n")
    await workspace.call("POST", "/lsps/start", {"path": str(place.path / "shop.py")})
    await place.state("py", READY)
    session = await workspace.session()

    await place.checked(session, "shop.py", "undefined_thing")
    found = await workspace.call("GET", "/lsps/py/diagnostics")
    (diagnostics,) = found.values()
    assert list(found) == [(place.path / "shop.py").as_uri()]
    error = next(d for d in diagnostics if d["severity"] == 1)
    assert error["range"]["start"] == {"line": 0, "character": 0}
    assert "undefined_thing" in error["message"]
    assert place.servers()
    start = seat.stream.mark()
    await workspace.call("POST", "/lsps/stop")
    await place.state("py", STOPPED, start=start)
    await eventually(lambda: place.servers() == [], "the server is gone")
    assert (await place.lsps())["py"]["diagnostic_count"] == 0
    for path, body, status in (
        ("/lsps/none/diagnostics", None, 404),
        ("/lsps/start", {}, 400),
        ("/lsps/start", {"path": 5}, 400),
    ):
        answer = await workspace.call("GET" if body is None else "POST", path, body, expect=status)
        assert set(answer) == {"message"}


async def test_installed_servers_start_where_a_project_has_their_markers(
    one_server: Server, connect: Connect, project_of: Callable[..., Path], tmp_path: Path
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "basedpyright-langserver").symlink_to(BIN / "basedpyright-langserver")
    path = f"{programs}:/usr/bin:/bin"
    client = connect(one_server)
    place = await sit(client, project_of(), PATH=path)
    assert await place.lsps() == {}  # until it is needed
    session = await place.seat.workspace.session()
    uses = await run_call(place.seat, session, call("lsp_references", symbol="tax"))
    assert "Found 4 references" in uses["content"]
    assert (await place.lsps())["basedpyright"]["state"] == READY
    for folder, marked_project in (
        (project_of(options={"auto_lsp": False}), True),
        (project_of(), False),
    ):
        if not marked_project:
            (folder / "pyproject.toml").unlink()
        other = await sit(client, folder, PATH=path)
        session = await other.seat.workspace.session()
        missing = await run_call(other.seat, session, call("lsp_references", symbol="tax"))
        assert "There is no tool 'lsp_references'" in missing["content"]


@linux_only
async def test_servers_end_with_their_workspace(
    shared_server: Server, connect: Connect, project_of: Callable[..., Path]
) -> None:
    place = await sit(connect(shared_server), project_of(lsp={"double": double("child")}))
    session = await place.seat.workspace.session()
    await run_call(place.seat, session, call("view", file_path="shop.py"))
    await eventually(lambda: len(place.servers()) >= 2, "the server and its child run")
    await place.seat.stream.close()
    await place.seat.workspace.release()
    await eventually(lambda: place.servers() == [], "all is gone")


@linux_only
async def test_servers_end_when_the_server_is_killed(
    embedded_server: Server, connect: Connect, project_of: Callable[..., Path]
) -> None:
    folder = project_of(lsp={"double": double("child")})
    place = await sit(connect(embedded_server), folder)
    session = await place.seat.workspace.session()
    await run_call(place.seat, session, call("view", file_path="shop.py"))
    await place.state("double", READY)
    await eventually(lambda: len(place.servers()) >= 2, "the server and its child run")
    await asyncio.to_thread(embedded_server.kill9)
    await eventually(lambda: place.servers() == [], "all is gone")
    await asyncio.to_thread(embedded_server.start)
    again = await sit(connect(embedded_server), folder)

    async def is_settled() -> bool:
        return (await again.lsps())["double"]["state"] in {0, STOPPED}

    await until(is_settled, "it is told as ended")
    session = await again.seat.workspace.session()
    (folder / "shop.py").write_text("bad\n")
    await again.checked(session, "shop.py", "line 1 is bad")


@pytest.mark.parametrize("mode", ["crash", "hang", "silent"])
async def test_a_failing_server_delays_an_edit_shortly_and_stops_nothing(
    mode: str, one_server: Server, connect: Connect, project_of: Callable[..., Path]
) -> None:
    place = await sit(connect(one_server), project_of(lsp={"double": double(mode, timeout=280)}))
    seat, session = place.seat, await place.seat.workspace.session()
    for number in range(3):
        began = time.monotonic()
        content = f"number = {number}\n"
        written = await run_call(seat, session, call("write", file_path="new.py", content=content))
        assert time.monotonic() - began < 60  # far from the 280 s that it is given to start
        assert written["is_error"] is False
        assert "diagnostics" not in written["content"]
    assert (place.path / "new.py").read_text() == "number = 2\n"
    if mode == "crash":
        state = await place.state("double", ERROR)
        assert state["error"].endswith(".")
        assert place.mark not in str(await place.lsps())


async def test_a_changed_configuration_is_applied(
    one_server: Server, connect: Connect, project_of: Callable[..., Path]
) -> None:
    place = await sit(connect(one_server), project_of(lsp={"double": double("publish")}))
    seat, session = place.seat, await place.seat.workspace.session()
    await run_call(seat, session, call("view", file_path="shop.py"))
    await place.state("double", READY)
    configuration = {"disabled": True, "command": "x"}
    start = seat.stream.mark()
    body = {"scope": 1, "key": "lsp.double", "value": configuration}
    await seat.workspace.call("POST", "/config/set", body)
    await place.state("double", DISABLED, start=start)
    await eventually(lambda: place.servers() == [], "the server is gone")
