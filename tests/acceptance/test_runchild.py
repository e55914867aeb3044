"""A child that works: turns with tools and a model, driven over its socket by a foreign parent."""

import asyncio
import json
import os
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from crushsite.child import database
from tests.acceptance.conftest import MakeProject
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.environment import ROOT, server_environment
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server
from tests.integration.fleet.children import (
    ChildProcess,
    Json,
    Parent,
    dialled,
    died,
    terminal,
    tokens,
)

KEY = "sk-parents-own"
TOKEN = "a token of some length for the fleet"
Spawn = Callable[..., ChildProcess]
Connect = Callable[[Server], Client]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def spawn(tmp_path: Path, work: Path, model: ScriptedModel) -> Iterator[Spawn]:
    """`spawn(capabilities={...})`: a child whose parent provides the scripted model."""
    children: list[ChildProcess] = []

    def make(kind: str = "crush", *, arguments: tuple[str, ...] = (), **more: Any) -> ChildProcess:
        fabric = tmp_path / "fabric"
        fabric.mkdir(exist_ok=True)
        env = server_environment(tmp_path / "home", tmp_path / "servers-data", {})
        # What it inherits of a server must lead it nowhere.
        env |= {"DATABASE_URL": "postgres://nobody@127.0.0.1:1/none", "CRUSH_FLEET_TOKEN": TOKEN}
        child = ChildProcess(fabric, arguments=arguments, env=env)
        children.append(child)
        credential = {
            "provider": "theirs",
            "api_key": KEY,
            "base_url": model.base_url,
            "provider_type": "openai-compat",
        }
        child.start(
            {
                "version": 1,
                "identity": {"child_id": "c1", "parent_id": "p1", "role": "worker"},
                "executor": {"kind": kind},
                "fabric_dir": str(fabric),
                "workspace": str(work),
                "model": {"provider": "theirs", "model": "one"},
                "secrets": {"provider_credentials": [credential]},
                "capabilities": {"enforce_permissions": True},
                **more,
            }
        )
        return child

    yield make
    for child in children:
        child.close()


@pytest.fixture
async def parent(spawn: Spawn) -> AsyncIterator[Parent]:
    async with dialled(await spawn(reusable=True).endpoint()) as parent:
        yield parent


def bash(command: str) -> str:
    return "[[tool=bash " + json.dumps({"command": command, "description": "Do it"}) + "]] [[n=2]]"


def events(frames: list[Json], kind: str) -> list[Json]:
    found = [frame["event"] for frame in frames if frame["kind"] == "event"]
    return [event for event in found if event["type"] == kind]


async def answered(parent: Parent, *, approved: bool) -> tuple[Json, list[Json]]:
    """The next question for permission, and what came after its answer."""
    request = await parent.until("approval_request")
    await parent.send({"kind": "approval_reply", "id": request["id"], "approved": approved})
    return request["body"], await parent.frames()


@pytest.mark.parametrize("kind", ["crush", "bamboo_runtime"])
async def test_a_turns_words_become_events_and_its_answer_the_result(
    spawn: Spawn, kind: str
) -> None:
    child = spawn(kind)
    async with dialled(await child.endpoint()) as parent:
        await parent.run("[[reason=2 n=3 id=w]]")
        frames = await parent.frames()
    assert "".join(event["content"] for event in events(frames, "reasoning_token")).split() == [
        "think0",
        "think1",
    ]
    assert "".join(tokens(frames)).split() == ["w-0", "w-1", "w-2"]
    assert frames[-2]["event"] == {"type": "complete"}
    assert frames[-1]["status"] == "completed"
    assert frames[-1]["result"].split() == ["w-0", "w-1", "w-2"]
    assert await child.ended() == 0
    assert child.said() == ""


async def test_tools_run_in_the_workspace_after_the_parents_approval(
    parent: Parent, work: Path
) -> None:
    await parent.run(bash("echo made > made.txt && echo done"))
    body, frames = await answered(parent, approved=True)
    assert (body["tool_name"], body["resource"]) == ("bash", str(work))
    assert "made.txt" in body["question"]
    assert (work / "made.txt").read_text() == "made\n"
    (result,) = events(frames, "tool_complete")
    assert result["result"] == {"success": True, "result": "done"}
    assert frames[-1]["status"] == "completed"


async def test_a_call_is_told_before_it_is_asked_about(parent: Parent) -> None:
    await parent.run(bash("touch x"))
    started = await parent.frame()
    assert started["event"]["type"] == "tool_start"
    assert started["event"]["tool_name"] == "bash"
    assert started["event"]["arguments"] == {"command": "touch x", "description": "Do it"}
    await parent.send({"kind": "cancel"})
    assert (await parent.frames())[-1] == terminal("cancelled")


async def test_a_denied_call_does_nothing(parent: Parent, work: Path) -> None:
    await parent.run(bash("touch denied.txt"))
    _, frames = await answered(parent, approved=False)
    assert not (work / "denied.txt").exists()
    assert frames[-1]["kind"] == "terminal"


async def test_two_calls_are_asked_about_at_once(parent: Parent, work: Path) -> None:
    calls = " ;; ".join(
        "bash " + json.dumps({"command": f"touch {name}", "description": "Touch"})
        for name in ("a", "b")
    )
    await parent.run(f"[[calls={calls}]] [[n=1]]")
    for _ in range(2):
        request = await parent.until("approval_request")
        await parent.send({"kind": "approval_reply", "id": request["id"], "approved": True})
    assert (await parent.frames())[-1]["status"] == "completed"
    assert sorted(path.name for path in work.iterdir()) == ["a", "b"]


@pytest.mark.parametrize(
    "capabilities",
    [{}, {"enforce_permissions": False}, {"enforce_permissions": True, "bypass": True}],
    ids=["default", "not enforced", "bypass"],
)
async def test_nobody_is_asked_where_permissions_are_not_enforced(
    spawn: Spawn, work: Path, capabilities: Json
) -> None:
    child = spawn(capabilities=capabilities)
    async with dialled(await child.endpoint()) as parent:
        await parent.run(bash("touch made.txt"))
        frames = await parent.frames()
    assert [frame["kind"] for frame in frames].count("approval_request") == 0
    assert (work / "made.txt").exists()


async def test_without_an_approver_questions_are_denied(spawn: Spawn, work: Path) -> None:
    child = spawn(capabilities={"enforce_permissions": True, "no_human_approver": True})
    async with dialled(await child.endpoint()) as parent:
        await parent.run(bash("touch made.txt"))
        frames = await parent.frames()
    assert [frame["kind"] for frame in frames].count("approval_request") == 0
    assert not (work / "made.txt").exists()


async def test_a_child_has_only_the_tools_it_is_given(spawn: Spawn, model: ScriptedModel) -> None:
    child = spawn(disabled_tools=["Bash", "write"])
    async with dialled(await child.endpoint()) as parent:
        await parent.run("[[n=1]] which tools")
        await parent.frames()
    names = _tools_of_the_last_request(model)
    assert {"view", "edit"} <= names
    assert not names & {"bash", "write", "question", "agent"}


async def test_a_guardian_only_reads(spawn: Spawn, model: ScriptedModel) -> None:
    child = spawn(capabilities={"guardian_read_only": True})
    async with dialled(await child.endpoint()) as parent:
        await parent.run("[[n=1]] which tools")
        await parent.frames()
    names = _tools_of_the_last_request(model)
    assert "view" in names
    assert not names & {"bash", "write", "edit", "multiedit", "download", "fetch"}


def last_request(model: ScriptedModel) -> Json:
    return model.request(model.served()[-1]["number"])


def _tools_of_the_last_request(model: ScriptedModel) -> set[str]:
    body = last_request(model)["body"]
    return {tool["function"]["name"] for tool in body.get("tools", ())}


async def test_the_parents_key_and_model_are_used_and_shown_to_nobody(
    spawn: Spawn, model: ScriptedModel, tmp_path: Path
) -> None:
    child = spawn(storage_dir=str(tmp_path / "storage"), capabilities={})
    async with dialled(await child.endpoint()) as parent:
        await parent.run(bash("env; cat /proc/$PPID/environ | tr '\\0' '\\n'"))
        frames = await parent.frames()
        request = last_request(model)
        assert request["body"]["model"] == "one"
        assert request["headers"]["Authorization"] == f"Bearer {KEY}"
    assert KEY not in json.dumps(frames)
    assert TOKEN not in json.dumps(frames)
    assert await child.ended() == 0
    assert KEY not in child.said()
    for path in (tmp_path / "storage").rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes()


async def test_the_database_lies_in_the_storage_folder_and_no_servers_is_touched(
    spawn: Spawn, tmp_path: Path, work: Path
) -> None:
    child = spawn(storage_dir=str(tmp_path / "storage"))
    async with dialled(await child.endpoint()) as parent:
        assert (await parent.outcome("[[n=1]]"))["status"] == "completed"
    assert await child.ended() == 0
    (stored,) = (tmp_path / "storage").rglob("*.sqlite3")
    assert stored.stat().st_mode & 0o077 == 0
    with sqlite3.connect(stored) as rows:
        assert rows.execute("SELECT count(*) FROM workspaces_session").fetchone() == (1,)
    rows.close()
    assert not (tmp_path / "servers-data").exists()
    assert list(work.iterdir()) == []


async def test_without_a_storage_folder_nothing_is_left(spawn: Spawn, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    os.environ["TMPDIR"] = str(temporary)
    try:
        child = spawn()
    finally:
        del os.environ["TMPDIR"]
    async with dialled(await child.endpoint()) as parent:
        assert (await parent.outcome("[[n=1]]"))["status"] == "completed"
        assert list(temporary.glob("crush-child-*/server.sqlite3"))
    assert await child.ended() == 0
    assert list(temporary.iterdir()) == []


async def test_a_message_steers_the_running_turn(parent: Parent, model: ScriptedModel) -> None:
    gate = model.new_gate()
    await parent.run(f'[[gate={gate}]] [[tool=glob {{"pattern": "*"}}]] [[n=1]]')
    await model.wait_at_gate(gate)
    await parent.send({"kind": "message", "text": "[[n=2 id=steered]]"})
    await asyncio.to_thread(model.open_gate, gate)
    frames = await parent.frames()
    assert frames[-1]["result"].split() == ["steered-0", "steered-1"]
    assert [frame["kind"] for frame in frames].count("terminal") == 1


async def test_a_cancel_ends_a_turn_and_what_it_has_started(parent: Parent, work: Path) -> None:
    await parent.run(bash("echo $$ > pid; sleep 600"))
    request = await parent.until("approval_request")
    await parent.send({"kind": "approval_reply", "id": request["id"], "approved": True})
    pid = await _pid_in(work / "pid")
    await parent.send({"kind": "cancel"})
    assert (await parent.frames())[-1] == terminal("cancelled")
    assert await died(pid)
    assert (await parent.outcome("[[n=1 id=next]]"))["result"].split() == ["next-0"]


@pytest.mark.parametrize("how", ["close", "kill"])
async def test_what_a_turn_has_started_ends_with_the_connection_and_with_the_child(
    spawn: Spawn, work: Path, how: str
) -> None:
    child = spawn(capabilities={})
    async with dialled(await child.endpoint()) as parent:
        await parent.run(bash("echo $$ > pid; sleep 600"))
        pid = await _pid_in(work / "pid")
        if how == "kill":
            psutil.Process(child.pid).kill()
    assert await died(pid)
    assert await child.ended() == (0 if how == "close" else -9)


async def _pid_in(path: Path) -> int:
    async with asyncio.timeout(20):
        while not (path.exists() and path.read_text().strip()):
            await asyncio.sleep(0.02)
    return int(path.read_text())


async def test_a_new_run_supersedes_a_turn(parent: Parent, model: ScriptedModel) -> None:
    gate = model.new_gate()
    await parent.run(f"[[gate={gate}]] [[n=1]]")
    await model.wait_at_gate(gate)
    await parent.run("[[n=1 id=second]]")
    assert await parent.frame() == terminal("cancelled")
    assert (await parent.frames())[-1]["result"].split() == ["second-0"]


async def test_the_limit_of_rounds_ends_a_turn_with_an_error(spawn: Spawn) -> None:
    child = spawn(limits={"max_rounds": 3})
    async with dialled(await child.endpoint()) as parent:
        await parent.run('[[loop=glob {"pattern": "*"}]]')
        frames = await parent.frames()
    assert frames[-1] == terminal("error", error="The run reached its limit of 3 rounds.")
    assert len(events(frames, "tool_start")) == 3


async def test_the_limit_of_time_ends_a_turn_with_an_error(spawn: Spawn) -> None:
    child = spawn(limits={"run_timeout_secs": 1})
    async with dialled(await child.endpoint()) as parent:
        await parent.run("[[n=1000 d=100]]")
        frames = await parent.frames()
    assert frames[-1] == terminal("error", error="The run took longer than its limit of 1 s.")
    assert tokens(frames)


async def test_a_failing_model_is_an_error_terminal(parent: Parent) -> None:
    end = await parent.outcome("[[status=400]]")
    assert end["status"] == "error"
    assert end["error"]
    assert KEY not in end["error"]


async def test_a_model_that_nobody_provides_is_an_error_terminal(spawn: Spawn) -> None:
    child = spawn(model={"provider": "nobody", "model": "none"})
    async with dialled(await child.endpoint()) as parent:
        end = await parent.outcome("[[n=1]]")
    assert end["status"] == "error"
    assert "nobody" in end["error"]


async def test_a_workspace_that_is_not_there_is_an_error_terminal(
    spawn: Spawn, tmp_path: Path
) -> None:
    child = spawn(workspace=str(tmp_path / "gone"))
    async with dialled(await child.endpoint()) as parent:
        end = await parent.outcome("[[n=1]]")
    assert end == terminal("error", error="The workspace's folder is not there.")


async def test_the_conversation_so_far_is_what_the_model_is_told(
    parent: Parent, model: ScriptedModel
) -> None:
    messages = [
        {"role": "user", "content": "my name is Ada"},
        {"role": "assistant", "content": [{"type": "text", "text": "hello Ada"}]},
        {"role": "tool", "content": "left out"},
        {"role": "user", "content": "[[n=1]]"},
    ]
    assert (await parent.outcome("[[n=1]]", messages=messages))["status"] == "completed"
    told = [
        (message["role"], json.dumps(message["content"]))
        for message in last_request(model)["body"]["messages"]
        if message["role"] != "system"
    ]
    assert [role for role, _ in told] == ["user", "assistant", "user"]
    assert "my name is Ada" in told[0][1]
    assert "hello Ada" in told[1][1]


async def test_many_parents_of_one_child_hear_only_their_own_turns(spawn: Spawn) -> None:
    endpoint = await spawn(arguments=("--forever",)).endpoint()

    async def drive(number: int) -> None:
        async with dialled(endpoint) as parent:
            await parent.run(f"[[n=20 d=2 id=p{number}]]")
            frames = await parent.frames()
        words = [f"p{number}-{word}" for word in range(20)]
        assert "".join(tokens(frames)).split() == words
        assert frames[-1]["result"].split() == words

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(drive(number))


async def test_many_runs_of_one_child_leave_no_descriptors(spawn: Spawn) -> None:
    child = spawn(reusable=True)
    endpoint = await child.endpoint()

    async def runs(count: int) -> None:
        for _ in range(count):
            async with dialled(endpoint) as parent:
                end = await parent.outcome("[[n=3]]")
                assert end["status"] == "completed", end

    await runs(10)
    process = psutil.Process(child.pid)
    before = process.num_fds()
    await runs(40)
    assert process.num_fds() <= before + 3


def test_the_tables_made_from_the_models_are_those_of_the_migrations(tmp_path: Path) -> None:
    import subprocess

    def schema(name: str, code: str) -> set[str]:
        folder = tmp_path / name
        folder.mkdir()
        env = server_environment(tmp_path / "home", folder, {})
        done = subprocess.run(
            [sys.executable, "-c", code, str(folder)],
            cwd=ROOT,
            env=env,
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr.decode()
        rows = sqlite3.connect(folder / database.DATABASE)
        try:
            found = rows.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
            ours = ("workspaces_", "permissions_", "agents_")
            return {_columns(sql) for name, sql in found if name.startswith(ours)}
        finally:
            rows.close()

    quick = schema(
        "quick",
        "import sys; from pathlib import Path; from crushsite.child.database import set_up_in;"
        " set_up_in(Path(sys.argv[1]))",
    )
    migrated = schema(
        "migrated",
        "import os, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'crushsite.settings';"
        " django.setup(); from django.core.management import call_command;"
        " call_command('migrate', verbosity=0)",
    )
    assert quick == migrated


def _columns(sql: str) -> str:
    """A table's parts in alphabetical order: migrations add columns behind the others."""
    head, _, body = sql.partition("(")
    parts, depth, part = [], 0, ""
    for letter in body:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    return head + "|".join(sorted([*parts, part.strip().removesuffix(")")]))


# -- behind the server's route


def route(server: Server) -> str:
    return server.url.replace("http://", "ws://") + "/fleet/child"


async def _status(url: str, headers: dict[str, str]) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session:
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        url = url.replace("ws://", "http://")
        async with session.get(url, headers=upgrade | headers) as answer:
            return answer.status, await answer.text()


async def test_without_a_token_there_is_no_route(embedded_server: Server) -> None:
    for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": f"Bearer {TOKEN}"}):
        assert (await _status(route(embedded_server), headers))[0] == 404


@pytest.mark.server_env(CRUSH_FLEET_TOKEN=TOKEN, CRUSH_FLEET_EXECUTOR="script")
async def test_only_the_token_lets_in(embedded_server: Server) -> None:
    url = route(embedded_server)
    for given in ("", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \u00e9"):
        status, text = await _status(url, {"Authorization": given} if given else {})
        assert status == 401
        assert TOKEN not in text
    assert TOKEN not in embedded_server.log_text()


@pytest.mark.server_env(CRUSH_FLEET_TOKEN=TOKEN, CRUSH_FLEET_EXECUTOR="script")
async def test_the_route_serves_the_same_conversation(embedded_server: Server) -> None:
    async with at_route(embedded_server) as parent, at_route(embedded_server) as other:
        await parent.run("__stream:10000:0 __approve:Write")
        request = await parent.until("approval_request")
        assert (await other.outcome("mine"))["result"] == "echo: mine"
        await parent.send({"kind": "approval_reply", "id": request["id"], "approved": True})
        assert (await parent.frames())[-1]["result"] == "echo: approved=true"
        await parent.run("__stream:100000000:0")
        await parent.frame()
        await parent.send({"kind": "cancel"})
        assert (await parent.frames())[-1] == terminal("cancelled")
        await parent.send("nonsense")
        await parent.run("__sleep_ms:60000")
        await parent.run("next " + "x" * 2_000_000)
        assert await parent.frame() == terminal("cancelled")
        assert len((await parent.frames())[-1]["result"]) > 2_000_000
        await parent.run("__sleep_ms:60000")
    async with at_route(embedded_server) as parent:
        for _ in range(100):
            result = (await parent.outcome("__stats"))["result"]
            if "active=1" in result:
                break
            await asyncio.sleep(0.05)
        assert "active=1" in result


@pytest.mark.server_env(CRUSH_FLEET_TOKEN=TOKEN)
async def test_without_a_workspace_the_route_runs_no_turns(embedded_server: Server) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert (await _status(route(embedded_server), headers))[0] == 404


async def test_a_turn_of_the_servers_own_is_seen_by_the_workspaces_clients(
    make_a_server: Callable[..., Server],
    project: MakeProject,
    connect: Connect,
    shape: Any,
) -> None:
    path = project()
    env = {"CRUSH_FLEET_TOKEN": TOKEN, "CRUSH_FLEET_WORKSPACE": str(path)}
    server = make_a_server(shape, env=env)
    server.start()
    workspace = await connect(server).workspace(path)
    async with at_route(server) as parent:
        await parent.run(bash("touch routed.txt") + " [[id=r]]")
        body, frames = await answered(parent, approved=True)
    assert body["tool_name"] == "bash"
    assert frames[-1]["result"].split() == ["r-0", "r-1"]
    assert (path / "routed.txt").exists()
    (session,) = await workspace.sessions()
    assert session["message_count"] == 4


def at_route(server: Server) -> Any:
    return dialled(route(server), headers={"Authorization": f"Bearer {TOKEN}"})
