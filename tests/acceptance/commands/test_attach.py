"""`manage.py attach`: a session live in a terminal."""

import asyncio
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.calling import call
from tests.acceptance.commands.prompts import Env
from tests.acceptance.conftest import MakeProject
from tests.acceptance.harness.commands import Typed, command
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server

TOUCH = call("bash", command="touch made.txt", description="Make")
DRAWING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def write(typed: Typed, prompt: str) -> None:
    start = len(typed.shown)
    typed.type("\n")
    typed.wait_for("❯ ", start=start)
    typed.type(f"{prompt}\n")


@pytest.fixture
def attached(shared_server: Server, project: MakeProject) -> Iterator[Typed]:
    with Typed(shared_server.env, "attach", "--new", "--path", str(project())) as typed:
        typed.wait_for("idle")
        yield typed


def test_words_tools_and_permissions_are_shown_and_answered_with_a_key(
    shared_server: Server, project: MakeProject
) -> None:
    path = project()
    with Typed(shared_server.env, "attach", "--new", "--path", str(path)) as typed:
        typed.wait_for("idle")
        write(typed, f"[[before=3 id=w]] {TOUCH} [[n=2]]")
        typed.wait_for("allow?")
        assert "│ touch made.txt\r\n" in typed.shown
        assert "→ " in typed.shown
        assert "waits for an answer" not in typed.shown.rpartition("allow?")[2]
        before = len(typed.shown)
        typed.type("x")  # is no answer
        # The terminal itself shows a key that comes before the command reads keys.
        typed.wait_for("x\r\n  allow?", start=before)
        typed.wait_for("[n]o: ", start=typed.shown.rindex("allow?"))
        assert not (path / "made.txt").exists()
        typed.type("y")
        typed.wait_for("allowed")
        typed.wait_for("← ")
        typed.type("q")
        assert typed.end() == 0
    assert (path / "made.txt").exists()
    assert "Come back with `manage.py attach" in typed.shown


def test_a_request_that_another_client_answers_is_closed(
    shared_server: Server, project: MakeProject
) -> None:
    path = project()
    with Typed(shared_server.env, "attach", "--new", "--path", str(path)) as first:
        first.wait_for("idle")
        write(first, TOUCH)
        first.wait_for("allow?")
        with Typed(shared_server.env, "attach", "--path", str(path)) as second:
            second.wait_for("allow?")
            second.type("y")
            second.wait_for("← ")
        first.wait_for("allowed")
        first.wait_for("← ")
        first.type("q")
        assert first.end() == 0


def test_questions_are_answered(attached: Typed) -> None:
    asked = [
        {"type": "yes_no", "question": "Really go?"},
        {"type": "free_text", "question": "Which colour?"},
    ]
    write(attached, call("question", questions=asked))
    attached.wait_for("Really go?")
    attached.wait_for("skip it: ")
    attached.type("y")
    attached.wait_for("Which colour?")
    attached.wait_for("answer: ")
    attached.type("blue\n")
    attached.wait_for("User provided: blue")


def test_ctrl_c_cancels_and_then_leaves(attached: Typed) -> None:
    write(attached, "[[n=20000 d=20 id=w]]")
    attached.wait_for("w-5")
    attached.interrupt()
    attached.wait_for("✗ cancelled")
    attached.interrupt()
    assert attached.end() == 0


def test_text_of_tools_cannot_control_the_terminal(
    shared_server: Server, project: MakeProject
) -> None:
    path = project()
    (path / "evil.txt").write_text("one\x1b]0;owned\x07\x1b[2Jtwo\u202e three\n")
    view = call("view", file_path=str(path / "evil.txt"))
    with Typed(shared_server.env, "attach", "--new", "--path", str(path)) as typed:
        typed.wait_for("idle")
        write(typed, view)
        typed.wait_for("three")
    assert "owned" in typed.shown
    for sequence in ("\x1b]", "\x07", "\x1b[2J", "\u202e"):
        assert sequence not in typed.shown


def test_it_survives_a_restart_of_the_server(
    embedded_server: Server, project: MakeProject, model: ScriptedModel
) -> None:
    path, gate = project(), model.new_gate()
    with Typed(embedded_server.env, "attach", "--new", "--path", str(path)) as typed:
        typed.wait_for("idle")
        write(typed, f"[[gate={gate} n=3 id=cut]]")
        asyncio.run(model.wait_at_gate(gate))
        embedded_server.kill9()
        typed.wait_for("the connection is lost")
        embedded_server.restart()
        typed.wait_for("connected again")
        model.open_gate(gate)
        typed.wait_for("cut-2")
        typed.wait_for("idle")
        write(typed, "[[n=3 id=again]]")
        typed.wait_for("again-2")
        typed.type("q")
        assert typed.end() == 0


def test_without_a_server_it_starts_one_of_its_own(project: MakeProject, alone: Env) -> None:
    path = project()
    with Typed(alone, "attach", "--new", "--path", str(path)) as typed:
        typed.wait_for("idle")
        write(typed, "[[n=3 id=w]]")
        typed.wait_for("w-2")
        typed.type("q")
        assert typed.end() == 0
    assert not (Path(alone["CRUSH_DATA_DIR"]) / "server.json").exists()


def test_a_resized_terminal_is_drawn_again(attached: Typed) -> None:
    attached.resize(columns=50, rows=12)
    write(attached, "[[n=60 d=10 id=w]]")
    attached.wait_for("w-20")
    attached.resize(columns=90, rows=12)
    attached.wait_for("w-59")
    lines = DRAWING.sub("", attached.shown).splitlines()
    assert max(len(line) for line in lines if "w-" in line) <= 90


def test_json_prints_each_item(shared_server: Server, project: MakeProject) -> None:
    path = project()
    command(shared_server.env, "prompt", "[[n=3 id=w]]", "--path", str(path), "--wait")
    with Typed(shared_server.env, "attach", "--json", "--path", str(path)) as typed:
        typed.wait_for("StreamLive")
        command(shared_server.env, "prompt", "[[n=3 id=x]]", "--path", str(path), "--wait")
        session = json.loads(command(shared_server.env, "sessions", "--json", str(path)).out)[-1][
            "id"
        ]
        command(
            shared_server.env, "prompt", "[[n=2 id=y]]", "--session", session, "--path", str(path)
        )
        typed.wait_for('"type":"run.finished"')
        typed.interrupt()
        assert typed.end() in {130, -signal.SIGINT}
    items = [json.loads(line) for line in typed.shown.splitlines() if line.startswith("{")]
    assert {"LogEvent", "NewText"} <= {item["item"] for item in items}
