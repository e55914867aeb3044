"""`manage.py sessions` and `cancel`, and what commands print when they cannot do it."""

import stat
import tempfile
import time
from pathlib import Path

import pytest

from tests.acceptance.commands.prompts import Env, sessions
from tests.acceptance.conftest import MakeProject
from tests.acceptance.harness.commands import Typed, command
from tests.acceptance.harness.environment import manage
from tests.acceptance.harness.shapes import Server


def test_cancel_ends_a_prompt_that_runs_with_wait(
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
def test_errors_of_commands_are_one_sentence(
    shared_server: Server, project: MakeProject, arguments: list[str], sentence: str
) -> None:
    done = command(shared_server.env, *arguments)
    assert done.code == 1
    assert sentence in done.err
    assert "Traceback" not in done.err


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


def test_before_the_first_start_commands_find_nothing(alone: Env) -> None:
    done = command(alone, "sessions")
    assert (done.code, done.out) == (0, "No sessions.\n"), done.err
    done = command(alone, "cancel", "x")
    assert done.code == 1
    assert "There is no session 'x'." in done.err
    assert not (Path(alone["CRUSH_DATA_DIR"]) / "server.json").exists()


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


def test_an_account_can_be_made_before_the_first_start(alone: Env) -> None:
    env = {**alone, "DJANGO_SUPERUSER_PASSWORD": "blue-kettle-7"}
    arguments = ["createsuperuser", "--noinput", "--username", "boss", "--email", "b@example.org"]
    done = command(env, *arguments)
    assert done.code == 0, done.err
    assert stat.S_IMODE(Path(env["CRUSH_DATA_DIR"]).stat().st_mode) == 0o700
    again = command(env, *arguments)
    assert again.code == 1
    assert "already taken" in again.err
