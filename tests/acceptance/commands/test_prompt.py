"""`manage.py prompt` beside a running server of either shape."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

from tests.acceptance.calling import agents, call
from tests.acceptance.commands.prompts import PRINTING, TOUCH, sessions
from tests.acceptance.conftest import MakeProject
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.commands import Typed, command
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]


def test_a_prompt_prints_its_answer_and_nothing_else(
    shared_server: Server, project: MakeProject
) -> None:
    done = command(shared_server.env, "prompt", "[[n=5 id=w]]", "--path", str(project()), "--wait")
    assert done.code == 0, done.err
    assert done.out.split() == ["w-0", "w-1", "w-2", "w-3", "w-4"]
    assert "session " in done.err


def test_a_prompt_without_wait_prints_the_session_and_runs_on_the_server(
    shared_server: Server, project: MakeProject
) -> None:
    path = project()
    done = command(shared_server.env, "prompt", "[[n=5]]", "--path", str(path))
    assert done.code == 0, done.err
    (session,) = sessions(shared_server.env, str(path))
    assert done.out.strip() == session["id"]
    again = command(
        shared_server.env,
        "prompt",
        "-",
        "--path",
        str(path),
        "--session",
        session["id"],
        "--wait",
        stdin="[[n=2 id=second]]",
    )
    assert again.out.split() == ["second-0", "second-1"]
    (after,) = sessions(shared_server.env, str(path))
    assert (after["message_count"], after["is_busy"]) == (4, False)


def test_a_given_title_is_kept(shared_server: Server, project: MakeProject) -> None:
    path = str(project())
    arguments = ["prompt", "[[n=5 d=50]]", "--path", path, "--wait", "--title", "Mine"]
    done = command(shared_server.env, *arguments)
    assert done.code == 0, done.err
    (session,) = sessions(shared_server.env, path)
    assert session["title"] == "Mine"


async def test_a_prompt_releases_its_workspace(
    server: Server, project: MakeProject, connect: Connect
) -> None:
    path = str(project())
    done = await asyncio.to_thread(
        command, server.env, "prompt", "[[n=2]]", "--path", path, "--wait"
    )
    assert done.code == 0, done.err
    assert await connect(server).workspaces() == []


def test_a_command_that_prints_runs_to_its_end(shared_server: Server, project: MakeProject) -> None:
    path = str(project())
    done = command(shared_server.env, "prompt", PRINTING, "--path", path, "--wait", "--yolo")
    assert (done.code, done.out.split()) == (0, ["w-0", "w-1"]), done.err
    assert "→ bash seq 3\n← 1 … 2 more lines\n" in done.err


def test_a_permission_request_is_denied_without_a_terminal(
    shared_server: Server, project: MakeProject
) -> None:
    path = project()
    done = command(shared_server.env, "prompt", TOUCH, "--path", str(path), "--wait")
    assert done.code == 1
    assert "denied: bash wants to execute" in done.err
    assert "--yolo" in done.err
    assert not (path / "made.txt").exists()


def test_questions_of_a_tool_are_dismissed_without_a_terminal(
    shared_server: Server, project: MakeProject
) -> None:
    ask = call("question", questions=[{"type": "yes_no", "question": "Really go?"}])
    done = command(shared_server.env, "prompt", ask, "--path", str(project()), "--wait")
    assert done.code == 0, done.err
    assert "Really go?" in done.err
    assert done.out.split() == ["word0", "word1", "word2"]


def test_an_agents_permission_request_is_denied_without_a_terminal(
    shared_server: Server, project: MakeProject, tmp_path: Path
) -> None:
    (tmp_path / "far.txt").write_text("x\n")
    look = f"[[tool=view {json.dumps({'file_path': str(tmp_path / 'far.txt')})}]] [[n=1]]"
    done = command(shared_server.env, "prompt", agents(look), "--path", str(project()), "--wait")
    assert done.code == 1
    assert "denied: view wants to read" in done.err
    assert done.out.split() == ["word0", "word1", "word2"]


def test_yolo_allows_every_request_of_this_prompt(
    shared_server: Server, project: MakeProject
) -> None:
    path = project()
    done = command(shared_server.env, "prompt", TOUCH, "--path", str(path), "--wait", "--yolo")
    assert done.code == 0, done.err
    assert "→ bash touch made.txt" in done.err
    assert (path / "made.txt").exists()


def test_the_prompt_repeats_until_the_answer_is_valid(
    shared_server: Server, project: MakeProject
) -> None:
    path = project()
    command_line = "ls   # look\ntouch made.txt" + " " * 4000 + "; true"
    words = call("bash", command=command_line, description="Look")
    with Typed(shared_server.env, "prompt", words, "--path", str(path), "--wait") as typed:
        typed.wait_for("allow?")
        assert "│ ls   # look\r\n│ touch made.txt⟨4,000 blanks⟩; true\r\n" in typed.shown
        typed.type("what\n")
        typed.wait_for("[n]o: what\r\n  allow?")
        typed.type("y\n")
        assert typed.end() == 0, typed.shown
    assert (path / "made.txt").exists()


async def test_a_request_that_another_client_answers_is_withdrawn(
    embedded_server: Server, project: MakeProject, connect: Connect
) -> None:
    path = project()
    workspace = await connect(embedded_server).workspace(path)
    stream = await workspace.attach()
    with Typed(embedded_server.env, "prompt", TOUCH, "--path", str(path), "--wait") as typed:
        await asyncio.to_thread(typed.wait_for, "allow?")
        event = await stream.wait_for(lambda e: e.type == "permission_request")
        await workspace.grant(event.payload, "allow")
        assert await asyncio.to_thread(typed.end) == 0, typed.shown
    assert (path / "made.txt").exists()


def test_ctrl_c_cancels_the_prompt(shared_server: Server, project: MakeProject) -> None:
    path = project()
    slow = "[[n=20000 d=20 id=w]]"
    with Typed(shared_server.env, "prompt", slow, "--path", str(path), "--wait") as typed:
        typed.wait_for("w-3")
        typed.interrupt()
        assert typed.end() == 130, typed.shown
    (session,) = sessions(shared_server.env, str(path))
    assert not session["is_busy"]


def test_a_waiting_prompt_outlives_its_server(
    embedded_server: Server, project: MakeProject, model: ScriptedModel
) -> None:
    path, gate = project(), model.new_gate()
    words = f"[[gate={gate} n=3 id=w]]"
    with Typed(embedded_server.env, "prompt", words, "--path", str(path), "--wait") as typed:
        asyncio.run(model.wait_at_gate(gate))
        embedded_server.kill9()
        embedded_server.restart()
        model.open_gate(gate)
        assert typed.end() == 0, typed.shown  # the next server requests the reply again
    assert "w-2" in typed.shown


def test_a_failed_prompt_prints_the_reason(shared_server: Server, project: MakeProject) -> None:
    done = command(
        shared_server.env, "prompt", "[[status=401]]", "--path", str(project()), "--wait"
    )
    assert done.code == 1
    assert "Error: " in done.err
    assert "Traceback" not in done.err
