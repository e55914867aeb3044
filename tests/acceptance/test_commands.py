"""The commands of `manage.py`: beside a running server of either shape, and without one."""

import asyncio
import json
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.calling import agents, call
from tests.acceptance.conftest import MakeProject
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.commands import Typed, command
from tests.acceptance.harness.environment import manage, server_environment
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.project import configuration
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
Env = dict[str, str]

DOCTORS_WORDS = "Answer with the one word"  # other requests are other tests'
MINE = {"base_url": "http://127.0.0.1:9/v1", "models": [{"id": "m"}]}
TOUCH = '[[tool=bash {"command": "touch made.txt", "description": "Make a file"}]] [[n=3]]'


@pytest.fixture
def alone(tmp_path: Path) -> Env:
    """The environment of a person on whose data folder no server runs."""
    return server_environment(tmp_path / "home", tmp_path / "data", {})


def sessions(env: Env, *arguments: str) -> list[dict]:
    done = command(env, "sessions", "--json", *arguments)
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_prompt_prints_its_answer_and_nothing_else(
    shared_server: Server, project: MakeProject
) -> None:
    done = command(shared_server.env, "prompt", "[[n=5 id=w]]", "--path", str(project()), "--wait")
    assert done.code == 0, done.err
    assert done.out.split() == ["w-0", "w-1", "w-2", "w-3", "w-4"]
    assert "session " in done.err


def test_a_prompt_without_wait_prints_the_session_and_goes_on(
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


def test_a_title_that_was_given_stays(shared_server: Server, project: MakeProject) -> None:
    path = str(project())
    arguments = ["prompt", "[[n=5 d=50]]", "--path", path, "--wait", "--title", "Mine"]
    done = command(shared_server.env, *arguments)
    assert done.code == 0, done.err
    (session,) = sessions(shared_server.env, path)
    assert session["title"] == "Mine"


async def test_a_prompt_lets_its_workspace_go(
    server: Server, project: MakeProject, connect: Connect
) -> None:
    path = str(project())
    done = await asyncio.to_thread(
        command, server.env, "prompt", "[[n=2]]", "--path", path, "--wait"
    )
    assert done.code == 0, done.err
    assert await connect(server).workspaces() == []


PRINTING = '[[tool=bash {"command": "seq 3", "description": "Count"}]] [[n=2 id=w]]'


def test_a_command_that_prints_is_carried_out_to_its_end(
    shared_server: Server, project: MakeProject
) -> None:
    path = str(project())
    done = command(shared_server.env, "prompt", PRINTING, "--path", path, "--wait", "--yolo")
    assert (done.code, done.out.split()) == (0, ["w-0", "w-1"]), done.err
    assert "→ bash seq 3\n← 1 … 2 more lines\n" in done.err


def test_without_a_server_a_command_that_prints_is_carried_out_to_its_end(
    alone: Env, project: MakeProject
) -> None:
    done = command(alone, "prompt", PRINTING, "--path", str(project()), "--wait", "--yolo")
    assert (done.code, done.out.split()) == (0, ["w-0", "w-1"]), done.err
    assert "← 1 … 2 more lines" in done.err


def test_a_question_is_denied_where_nobody_can_answer(
    shared_server: Server, project: MakeProject
) -> None:
    path = project()
    done = command(shared_server.env, "prompt", TOUCH, "--path", str(path), "--wait")
    assert done.code == 1
    assert "denied: bash wants to execute" in done.err
    assert "--yolo" in done.err
    assert not (path / "made.txt").exists()


def test_questions_of_a_tool_are_dismissed_where_nobody_can_answer(
    shared_server: Server, project: MakeProject
) -> None:
    ask = call("question", questions=[{"type": "yes_no", "question": "Really go?"}])
    done = command(shared_server.env, "prompt", ask, "--path", str(project()), "--wait")
    assert done.code == 0, done.err
    assert "Really go?" in done.err
    assert done.out.split() == ["word0", "word1", "word2"]


def test_what_an_agent_asks_is_denied_where_nobody_can_answer(
    shared_server: Server, project: MakeProject, tmp_path: Path
) -> None:
    (tmp_path / "far.txt").write_text("x\n")
    look = f"[[tool=view {json.dumps({'file_path': str(tmp_path / 'far.txt')})}]] [[n=1]]"
    done = command(shared_server.env, "prompt", agents(look), "--path", str(project()), "--wait")
    assert done.code == 1
    assert "denied: view wants to read" in done.err
    assert done.out.split() == ["word0", "word1", "word2"]


def test_yolo_allows_what_this_prompt_asks(shared_server: Server, project: MakeProject) -> None:
    path = project()
    done = command(shared_server.env, "prompt", TOUCH, "--path", str(path), "--wait", "--yolo")
    assert done.code == 0, done.err
    assert "→ bash touch made.txt" in done.err
    assert (path / "made.txt").exists()


def test_a_person_is_asked_until_the_answer_is_one(
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


async def test_a_question_that_another_client_answers_is_withdrawn(
    embedded_server: Server, project: MakeProject, connect: Connect
) -> None:
    path = project()
    workspace = await connect(embedded_server).workspace(path)
    stream = await workspace.attach()
    with Typed(embedded_server.env, "prompt", TOUCH, "--path", str(path), "--wait") as typed:
        await asyncio.to_thread(typed.wait_for, "allow?")
        asked = await stream.wait_for(lambda e: e.type == "permission_request")
        await workspace.grant(asked.payload, "allow")
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


def test_cancel_ends_a_prompt_that_somebody_waits_for(
    shared_server: Server, project: MakeProject
) -> None:
    path = project()
    slow = "[[n=20000 d=20 id=w]]"
    with Typed(shared_server.env, "prompt", slow, "--path", str(path), "--wait") as typed:
        typed.wait_for("w-3")
        (session,) = sessions(shared_server.env, str(path))
        done = command(shared_server.env, "cancel", session["id"][:13])
        assert done.out == "Cancelled 1 prompt.\n", done.err
        assert typed.end() == 130, typed.shown
    again = command(shared_server.env, "cancel", session["id"])
    assert (again.code, again.out) == (0, "Nothing was running or waiting.\n")


def test_a_waiting_prompt_outlives_its_server(
    embedded_server: Server, project: MakeProject, model: ScriptedModel
) -> None:
    path, gate = project(), model.new_gate()
    words = f"[[gate={gate} n=3]]"
    with Typed(embedded_server.env, "prompt", words, "--path", str(path), "--wait") as typed:
        asyncio.run(model.wait_at_gate(gate))
        embedded_server.kill9()
        embedded_server.restart()
        # A run that was cut inside the model's answer is settled: nothing is asked twice.
        assert typed.end() == 1, typed.shown
    assert "interrupted" in typed.shown
    model.open_gate(gate)


def test_a_failed_prompt_says_why(shared_server: Server, project: MakeProject) -> None:
    done = command(
        shared_server.env, "prompt", "[[status=401]]", "--path", str(project()), "--wait"
    )
    assert done.code == 1
    assert "Error: " in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["prompt", " ", "--path", "."], "The prompt is empty"),
        (["prompt", "x", "--yolo"], "--yolo needs --wait"),
        (["prompt", "x", "--title", "t"], "--title needs --wait"),
        (["prompt", "x", "--path", "/no/such/folder"], "path: does not exist"),
        (["prompt", "x", "--session", "no-such-session"], "There is no session"),
        (["cancel", "no-such-session"], "There is no session"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    shared_server: Server, project: MakeProject, arguments: list[str], sentence: str
) -> None:
    done = command(shared_server.env, *arguments)
    assert done.code == 1
    assert sentence in done.err
    assert "Traceback" not in done.err


def test_without_a_server_a_prompt_is_carried_out_here(alone: Env, project: MakeProject) -> None:
    path = project()
    done = command(alone, "prompt", TOUCH, "--path", str(path), "--wait", "--yolo")
    assert done.code == 0, done.err
    assert (path / "made.txt").exists()
    (session,) = sessions(alone)
    assert (session["path"], session["is_busy"]) == (str(path), False)


def test_without_a_server_a_prompt_is_accepted_and_the_next_one_works_on_it(
    alone: Env, project: MakeProject
) -> None:
    path = str(project())
    accepted = command(alone, "prompt", "[[n=4]]", "--path", path)
    assert accepted.code == 0, accepted.err
    (session,) = sessions(alone)
    assert session["is_busy"]
    done = command(alone, "prompt", "[[n=2 id=mine]]", "--path", path, "--wait")
    assert done.out.split() == ["mine-0", "mine-1"]
    earlier = next(s for s in sessions(alone) if s["id"] == session["id"])
    assert (earlier["is_busy"], earlier["message_count"]) == (False, 2)


def test_without_a_server_cancel_settles_what_waits(alone: Env, project: MakeProject) -> None:
    accepted = command(alone, "prompt", "[[n=4]]", "--path", str(project()))
    done = command(alone, "cancel", accepted.out.strip())
    assert done.out == "Cancelled 1 prompt.\n", done.err
    (session,) = sessions(alone)
    assert (session["is_busy"], session["message_count"]) == (False, 2)


def test_no_server_starts_beside_a_prompt_that_works_alone(
    alone: Env, project: MakeProject, tmp_path: Path
) -> None:
    slow = "[[n=20000 d=20 id=w]]"
    with Typed(alone, "prompt", slow, "--path", str(project()), "--wait") as typed:
        typed.wait_for("w-1")
        refused = command(alone, "serve", "--host", "tcp://127.0.0.1:0")
        assert refused.code == 1
        assert "already runs" in refused.err
        typed.interrupt()
        assert typed.end() == 130, typed.shown


def test_commands_find_a_server_on_a_socket_file(
    project: MakeProject, alone: Env, tmp_path: Path
) -> None:
    # Not under pytest's folders: a socket's address holds about a hundred bytes.
    with tempfile.TemporaryDirectory() as folder:
        socket = f"unix://{folder}/s.sock"
        server = manage("serve", ["serve", "--host", socket], env=alone, log=tmp_path / "serve.log")
        server.start()
        try:
            server.wait_for_line("Serving", 90)
            done = command(alone, "prompt", "[[n=2 id=w]]", "--path", str(project()), "--wait")
            assert done.out.split() == ["w-0", "w-1"], done.err
            assert socket in command(alone, "doctor").out
        finally:
            server.stop()


def test_before_anything_is_stored_commands_say_what_to_do(alone: Env) -> None:
    for arguments in (["sessions"], ["cancel", "x"]):
        done = command(alone, *arguments)
        assert done.code == 1
        assert "bin/serve" in done.err


def test_sessions_are_a_table_for_people(shared_server: Server, project: MakeProject) -> None:
    path = project()
    assert "No sessions" in command(shared_server.env, "sessions", str(path)).out
    (path / "crush.json").unlink()  # the offline model makes the prompt's first line the title
    done = command(shared_server.env, "prompt", "T" * 200, "--path", str(path), "--wait")
    assert done.code == 0, done.err
    deadline = time.monotonic() + 60
    while True:  # a slow title comes behind the run's end
        heading, row = command(shared_server.env, "sessions", str(path)).out.splitlines()
        if "TTT" in row or time.monotonic() > deadline:
            break
    assert heading.split() == ["id", "title", "busy", "messages", "cost", "updated"]
    assert "TTT…" in row
    assert "T" * 50 not in row


def test_doctor_knows_a_healthy_server(shared_server: Server, project: MakeProject) -> None:
    done = command(shared_server.env, "doctor", "--path", str(project()))
    assert done.code == 0, done.out
    assert f"{shared_server.url} (pid " in done.out
    assert "fake-large of fake" in done.out
    assert "FAIL" not in done.out


def test_doctor_names_what_is_wrong_where(alone: Env, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "crush.json").write_text('{\n  "providers": nonsense\n}')
    data = Path(alone["CRUSH_DATA_DIR"])
    data.mkdir(parents=True)
    (data / "secret.key").write_text("x")
    (data / "secret.key").chmod(0o644)
    done = command(alone, "doctor", "--path", str(folder))
    assert done.code == 1
    assert f"{folder}/crush.json:2:" in done.out
    assert "chmod 600" in done.out


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"providers": nonsense}', "crush.json:1:15: it is not JSON"),
        (json.dumps({"providers": {"mine": MINE | {"api_key": "$NO_KEY"}}}), "$NO_KEY is not set"),
        (json.dumps({"providers": {"mine": MINE | {"type": "grpc"}}}), "is not a known type"),
    ],
)
def test_a_prompt_fails_where_the_configuration_is_broken(
    alone: Env, tmp_path: Path, content: str, reason: str
) -> None:
    (tmp_path / "crush.json").write_text(content)
    done = command(alone, "prompt", "hello", "--path", str(tmp_path), "--wait")
    assert done.code == 1
    assert reason in done.err
    assert done.out == ""
    looked = command(alone, "doctor", "--path", str(tmp_path))
    assert looked.code == 1
    assert reason in looked.out


def test_an_unknown_key_is_no_failure_and_is_named_with_what_was_meant(
    alone: Env, tmp_path: Path
) -> None:
    (tmp_path / "crush.json").write_text('{"permission": {}, "provider": {"a": {}}}')
    looked = command(alone, "doctor", "--path", str(tmp_path))
    assert looked.code == 0, looked.out
    assert "permission: is not known and has no effect; did you mean permissions?" in looked.out
    assert "provider: is not known and has no effect; did you mean providers?" in looked.out
    done = command(alone, "prompt", "hello", "--path", str(tmp_path), "--wait")
    assert done.code == 0
    assert "did you mean permissions?" in done.err  # the log's warning


@pytest.mark.server_env(ONLY_THE_SERVERS_KEY="sk-fake")
def test_doctor_asks_the_running_server_and_its_model(
    embedded_server: Server, project: MakeProject, model: ScriptedModel
) -> None:
    config = configuration(model.base_url)
    config["providers"]["fake"]["api_key"] = "$ONLY_THE_SERVERS_KEY"
    path = project("doctored", **config)
    env = {k: v for k, v in embedded_server.env.items() if k != "ONLY_THE_SERVERS_KEY"}
    before = len(model.served(DOCTORS_WORDS))
    offline = command(env, "doctor", "--offline", "--path", str(path))
    assert offline.code == 0, offline.out
    assert "fake-large of fake" in offline.out
    assert "fake (with a key)" in offline.out
    assert "sk-fake" not in offline.out
    assert len(model.served(DOCTORS_WORDS)) == before
    asked = command(env, "doctor", "--path", str(path))
    assert asked.code == 0, asked.out
    assert "the large model answered in" in asked.out
    assert len(model.served(DOCTORS_WORDS)) == before + 1

    config["providers"]["fake"]["base_url"] = f"http://127.0.0.1:{free_port()}/v1"
    (path / "crush.json").write_text(json.dumps(config))
    dead = command(env, "doctor", "--path", str(path))
    assert dead.code == 1
    assert "cannot be reached" in dead.out

    (path / "crush.json").write_text('{"providers": nonsense}')
    broken = command(env, "doctor", "--path", str(path))
    assert broken.code == 1
    assert "crush.json:1:15: it is not JSON" in broken.out


def test_doctor_asks_the_model_without_a_server_and_prints_its_findings_only(
    alone: Env, tmp_path: Path, model: ScriptedModel
) -> None:
    (tmp_path / "crush.json").write_text(json.dumps(configuration(model.base_url)))
    asked = command(alone, "doctor", "--path", str(tmp_path))
    assert asked.code == 0, asked.out
    assert "the large model answered in" in asked.out
    assert asked.err == ""


def test_doctor_refuses_several_processes_on_sqlite(alone: Env) -> None:
    redis = {"REDIS_URL": "redis://:very-secret@127.0.0.1:1/0"}
    done = command({**alone, **redis}, "doctor")
    assert done.code == 1
    assert "SQLite" in done.out
    assert "Redis" in done.out
    assert "very-secret" not in done.out + done.err


def test_doctor_tells_a_killed_server_from_a_living_one(
    embedded_server: Server,
) -> None:
    embedded_server.kill9()
    done = command(embedded_server.env, "doctor")
    assert done.code == 0, done.out
    assert "ended without cleaning up" in done.out


def test_an_account_can_be_made_before_the_first_start(alone: Env) -> None:
    env = {**alone, "DJANGO_SUPERUSER_PASSWORD": "blue-kettle-7"}
    arguments = ["createsuperuser", "--noinput", "--username", "boss", "--email", "b@example.org"]
    done = command(env, *arguments)
    assert done.code == 0, done.err
    assert stat.S_IMODE(Path(env["CRUSH_DATA_DIR"]).stat().st_mode) == 0o700
    again = command(env, *arguments)
    assert again.code == 1
    assert "already taken" in again.err
