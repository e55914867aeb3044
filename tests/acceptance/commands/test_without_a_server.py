"""`prompt` and `cancel` where no server runs."""

import json
from pathlib import Path

import pytest

from tests.acceptance.commands.prompts import PRINTING, TOUCH, Env, sessions
from tests.acceptance.conftest import MakeProject
from tests.acceptance.harness.commands import Typed, command

PROVIDER = {"base_url": "http://127.0.0.1:9/v1", "models": [{"id": "m"}]}


def test_without_a_server_a_command_that_prints_runs_to_its_end(
    alone: Env, project: MakeProject
) -> None:
    done = command(alone, "prompt", PRINTING, "--path", str(project()), "--wait", "--yolo")
    assert (done.code, done.out.split()) == (0, ["w-0", "w-1"]), done.err
    assert "← 1 … 2 more lines" in done.err


def test_without_a_server_a_prompt_runs_in_the_command(alone: Env, project: MakeProject) -> None:
    path = project()
    done = command(alone, "prompt", TOUCH, "--path", str(path), "--wait", "--yolo")
    assert done.code == 0, done.err
    assert (path / "made.txt").exists()
    (session,) = sessions(alone)
    assert (session["path"], session["is_busy"]) == (str(path), False)


def test_without_a_server_a_prompt_is_stored_and_the_next_one_runs_it(
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


def test_without_a_server_cancel_settles_queued_prompts(alone: Env, project: MakeProject) -> None:
    accepted = command(alone, "prompt", "[[n=4]]", "--path", str(project()))
    done = command(alone, "cancel", accepted.out.strip())
    assert done.out == "Cancelled 1 prompt.\n", done.err
    (session,) = sessions(alone)
    assert (session["is_busy"], session["message_count"]) == (False, 2)


def test_no_server_starts_while_a_prompt_runs_without_a_server(
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


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"providers": nonsense}', "crush.json:1:15: it is not JSON"),
        (
            json.dumps({"providers": {"mine": PROVIDER | {"api_key": "$NO_KEY"}}}),
            "$NO_KEY is not set",
        ),
        (json.dumps({"providers": {"mine": PROVIDER | {"type": "grpc"}}}), "is not a known type"),
    ],
)
def test_a_prompt_fails_when_the_configuration_is_broken(
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
