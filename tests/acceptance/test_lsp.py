"""Language servers through a running server: a real one, and some that misbehave."""

import asyncio
import json
import os
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import asked, call, eventually, metadata_of, results, run_call, until
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.processes import marked
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.harness.stream import Event
from tests.acceptance.marked import linux_only

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]

BIN = Path(sys.executable).parent
# The default of 30 s is meant for people; a busy machine may take longer to start it.
PYRIGHT = {"command": str(BIN / "basedpyright-langserver"), "args": ["--stdio"], "timeout": 100}
DOUBLE = Path(__file__).parents[1] / "doubles" / "language_server.py"
STARTING, READY, ERROR, STOPPED, DISABLED = 1, 2, 3, 4, 5
PATIENCE_SECONDS = 240  # a checker of a whole language, on a machine that may be busy

pytestmark = pytest.mark.timeout(600)


@dataclass
class Place:
    """A seat in a Python project, whose language servers can be found by a mark."""

    seat: Seat
    mark: str

    @property
    def path(self) -> Path:
        return self.seat.workspace.path

    def servers(self) -> list[int]:
        return marked(self.mark)

    async def lsps(self) -> dict[str, Any]:
        return dict(await self.seat.workspace.call("GET", "/lsps"))

    async def checked(self, session: str, file: str, told: str) -> str:
        """What the diagnostics tool says, once it says this: a call waits only so long."""
        check = call("lsp_diagnostics", file_path=file)

        async def says_it() -> str | None:
            content = str((await run_call(self.seat, session, check))["content"])
            return content if told in content else None

        return str(await until(says_it, f"{told} is found", PATIENCE_SECONDS))

    async def state(self, name: str, state: int, *, start: int = 0) -> dict[str, Any]:
        def fits(event: Event) -> bool:
            return (
                event.type == "lsp_event"
                and event.payload["type"] == "state_changed"
                and (event.payload["name"], event.payload["state"]) == (name, state)
            )

        found = await self.seat.stream.wait_for(fits, PATIENCE_SECONDS, start=start)
        return found.payload


@pytest.fixture
def one_server(kept_servers: Callable[[Shape], Server]) -> Server:
    """For what does not depend on the shape."""
    return kept_servers(Shape.EMBEDDED)


@pytest.fixture
def project_of(project: MakeProject) -> Callable[..., Path]:
    def make(**configuration: Any) -> Path:
        folder = project(uuid.uuid4().hex, **configuration)
        (folder / "pyproject.toml").write_text("[project]\nname = 'sample'\n")
        (folder / "shop.py").write_text(
            "class Basket:\n"
            "    def total(self, price: int) -> int:\n"
            "        return tax(price)\n"
            "\n"
            "\n"
            "def tax(amount: int) -> int:\n"
            "    return amount\n"
        )
        (folder / "main.py").write_text(
            "from shop import Basket, tax\n\n\ndef main() -> None:\n"
            "    print('\N{GRINNING FACE}', Basket().total(tax(2)))\n"
        )
        return folder

    return make


async def sit(client: Client, folder: Path, *, yolo: bool = True, **env: str) -> Place:
    mark = uuid.uuid4().hex
    given = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], "LSP_TEST": mark, **env}
    listed = [f"{name}={value}" for name, value in given.items()]
    return Place(await take_seat(client, folder, yolo=yolo, env=listed), mark)


def double(mode: str, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(DOUBLE), mode], "filetypes": ["py"], **more}


async def test_an_edit_tells_the_model_and_the_clients_what_it_broke(
    shared_server: Server, connect: Connect, project_of: Callable[..., Path]
) -> None:
    place = await sit(connect(shared_server), project_of(lsp={"py": PYRIGHT}))
    seat = place.seat
    session = await seat.workspace.session()
    await run_call(seat, session, call("view", file_path="shop.py"))
    await place.state("py", READY)
    result = await until(partial(_break, seat, session), "an edit hears of it", PATIENCE_SECONDS)
    assert result["is_error"] is False
    assert "Error: shop.py:7:12 [py basedpyright reportUndefinedVariable]" in result["content"]
    assert '"sum_of_it" is not defined' in result["content"]
    await place.state("py", STARTING)
    told = await seat.stream.wait_for(
        lambda e: e.type == "lsp_event" and e.payload["type"] == "diagnostics_changed"
    )
    assert told.payload["name"] == "py"
    assert told.payload["diagnostic_count"] >= 1
    state = (await place.lsps())["py"]
    assert (state["name"], state["state"]) == ("py", READY)
    assert state["diagnostic_count"] >= 1
    assert "error" not in state
    assert state["connected_at"].startswith("20")
    mended = await run_call(
        seat,
        session,
        call(
            "edit", file_path="shop.py", old_string="return sum_of_it", new_string="return amount"
        ),
    )
    assert "not defined" not in mended["content"]


async def _break(seat: Seat, session: str) -> dict[str, Any] | None:
    """An edit that waited long enough for the checker; else the file is as before, and warm."""
    names = ("return amount", "return sum_of_it")
    for old, new in (names, names[::-1]):
        result = await run_call(
            seat, session, call("edit", file_path="shop.py", old_string=old, new_string=new)
        )
        if "<file_diagnostics>" in result["content"] and new == names[1]:
            return result
    await run_call(seat, session, call("lsp_diagnostics", file_path="shop.py"))
    return None


async def test_the_tools_answer_by_name(
    one_server: Server, connect: Connect, project_of: Callable[..., Path]
) -> None:
    place = await sit(connect(one_server), project_of(lsp={"py": PYRIGHT}))
    session = await place.seat.workspace.session()

    async def said(name: str, **arguments: Any) -> dict[str, Any]:
        result = await run_call(place.seat, session, call(name, **arguments))
        assert result["is_error"] is False, result
        return result

    outline = (await said("lsp_symbols", file_path="shop.py"))["content"]
    assert "Class Basket (lines 1-3)" in outline
    assert "  Method total (lines 2-3)" in outline
    uses = (await said("lsp_references", symbol="tax"))["content"]
    assert "Found 4 references in 2 files" in uses
    assert "main.py:" in uses
    assert "Line 6, column 5: def tax(amount: int) -> int:" in uses
    # The letter before it is one in Python and two on the protocol's wire.
    assert "Line 5, column 32" in uses
    found = await said("lsp_definition", symbol="Basket.total", path="main.py")
    assert "shop.py:2" in found["content"]
    metadata = metadata_of(found)
    assert metadata["file_path"] == str(place.path / "shop.py")
    assert metadata["line"] == 2
    assert "def total" in metadata["content"]
    callers = (await said("lsp_call_hierarchy", symbol="tax"))["content"]
    assert "tax has 2 callers" in callers
    assert "main.py:4" in callers
    callees = (await said("lsp_call_hierarchy", symbol="main", direction="outgoing"))["content"]
    assert "shop.py:6 Function tax" in callees
    (place.path / "main.py").write_text("from shop import nothing_there\n")
    checked = await place.checked(session, "main.py", "nothing_there")
    assert "main.py: 1 error" in checked
    everywhere = (await said("lsp_diagnostics"))["content"]
    assert "<project_diagnostics>" in everywhere
    restarted = (await said("lsp_restart"))["content"]
    assert restarted == "Restarted py."


async def test_wrong_arguments_and_unknown_names_go_back_to_the_model(
    one_server: Server, connect: Connect, project_of: Callable[..., Path]
) -> None:
    place = await sit(connect(one_server), project_of(lsp={"py": PYRIGHT}))
    session = await place.seat.workspace.session()
    for name, arguments, sentence in (
        ("lsp_references", {}, "symbol is missing: a string is required."),
        ("lsp_rename", {"symbol": "tax"}, "new_name is missing: a string is required."),
        ("lsp_symbols", {"file_path": 3}, "file_path must be a string, not a number."),
        ("lsp_call_hierarchy", {"symbol": "tax", "direction": "up"}, "direction must be"),
        (
            "lsp_references",
            {"symbol": "no_such_name"},
            "no_such_name was not found in the workspace.",
        ),
        ("lsp_symbols", {"file_path": "/etc/passwd"}, "outside of the working directory"),
        ("lsp_restart", {"name": "other"}, "There is no language server 'other'"),
        ("lsp_replace_symbol", {"symbol": "tax", "file_path": "shop.py"}, "replacement is missing"),
    ):
        prompt = f"[[tool={name} {json.dumps(arguments)}]] [[n=3]]"
        result = await run_call(place.seat, session, prompt)
        assert result["is_error"] is True
        assert sentence in result["content"]


async def test_a_rename_is_asked_for_once_and_changes_all_files(
    one_server: Server, connect: Connect, project_of: Callable[..., Path]
) -> None:
    place = await sit(connect(one_server), project_of(lsp={"py": PYRIGHT}), yolo=False)
    seat, shop, main = place.seat, place.path / "shop.py", place.path / "main.py"
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, call("lsp_rename", symbol="tax", new_name="duty"))
    request = await asked(seat, session)
    assert (request["tool_name"], request["action"]) == ("lsp_rename", "write")
    assert request["path"] == str(place.path)
    assert set(request["params"]) == {"file_path", "old_content", "new_content"}
    assert "def tax(" in request["params"]["old_content"]
    assert "def duty(" in request["params"]["new_content"]
    assert "total(duty(2))" in request["params"]["new_content"]
    assert "tax" in shop.read_text()
    await seat.workspace.grant(request)
    await seat.stream.run_complete(session)
    result = results(await seat.workspace.messages(session))[-1]
    assert result["is_error"] is False, result
    assert "Renamed tax to duty in 2 files" in result["content"]
    assert metadata_of(result)["action"] == "rename"
    assert "tax" not in shop.read_text() + main.read_text()
    assert "print('\N{GRINNING FACE}', Basket().total(duty(2)))" in main.read_text()
    history = await seat.workspace.history(session)
    assert {(Path(f["Path"]).name, f["Version"]) for f in history} == {
        ("shop.py", 0),
        ("shop.py", 1),
        ("main.py", 0),
        ("main.py", 1),
    }


async def test_a_denied_rename_changes_nothing(
    one_server: Server, connect: Connect, project_of: Callable[..., Path]
) -> None:
    place = await sit(connect(one_server), project_of(lsp={"py": PYRIGHT}), yolo=False)
    before = (place.path / "shop.py").read_text()
    session = await place.seat.workspace.session()
    await place.seat.workspace.prompt(session, call("lsp_rename", symbol="tax", new_name="duty"))
    await place.seat.workspace.grant(await asked(place.seat, session), "deny")
    await place.seat.stream.run_complete(session)
    assert (place.path / "shop.py").read_text() == before
    assert await place.seat.workspace.history(session) == []


async def test_a_symbol_is_replaced_by_its_name(
    one_server: Server, connect: Connect, project_of: Callable[..., Path]
) -> None:
    place = await sit(connect(one_server), project_of(lsp={"py": PYRIGHT}))
    seat, shop = place.seat, place.path / "shop.py"
    session = await seat.workspace.session()
    replace = call(
        "lsp_replace_symbol",
        symbol="Basket.total",
        file_path="shop.py",
        replacement="def total(self, price: int) -> str:\n    return tax(price)",
    )
    unread = await run_call(seat, session, replace)
    assert unread["is_error"] is True
    assert "has not been read in this session" in unread["content"]
    before = shop.read_text()
    for _ in range(10):  # a change waits five seconds for the checker, which may be busy
        shop.write_text(before)
        await run_call(seat, session, call("view", file_path="shop.py"))
        await run_call(seat, session, call("lsp_diagnostics", file_path="shop.py"))  # it is warm
        await seat.workspace.skip_permissions(False)
        start = seat.stream.mark()
        await seat.workspace.prompt(session, replace)
        request = await asked(seat, session, start=start)
        assert request["action"] == "write"
        assert request["params"]["file_path"] == str(shop)
        assert request["params"]["old_content"] == before
        await seat.workspace.grant(request)
        await seat.stream.run_complete(session, start=start)
        result = results(await seat.workspace.messages(session))[-1]
        if "diagnostics>" in result["content"]:
            break
    assert "Replaced Basket.total in shop.py (+1 -1 lines)." in result["content"]
    assert 'is not assignable to return type "str"' in result["content"]
    assert metadata_of(result) == {
        "file_path": str(shop),
        "old_content": before,
        "new_content": shop.read_text(),
        "action": "replace",
    }
    assert (
        "    def total(self, price: int) -> str:\n        return tax(price)\n" in shop.read_text()
    )


async def test_clients_start_stop_and_ask_servers(
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


async def test_what_is_installed_is_started_where_a_project_has_its_markers(
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
async def test_a_server_that_misbehaves_delays_an_edit_shortly_and_stops_nothing(
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
        told = await place.state("double", ERROR)
        assert told["error"].endswith(".")
        assert place.mark not in str(await place.lsps())


async def test_a_changed_configuration_is_followed(
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
