"""`prompt` where no server runs: several at once, what waits, what is only stored, what ends."""

import asyncio
from pathlib import Path

from tests.acceptance.calling import call
from tests.acceptance.commands.prompts import TOUCH, Env
from tests.acceptance.conftest import MakeProject
from tests.acceptance.harness.commands import Typed, command
from tests.acceptance.harness.model import ScriptedModel


def test_two_prompts_run_at_the_same_time(
    alone: Env, project: MakeProject, model: ScriptedModel
) -> None:
    gate = model.new_gate()
    slow = f"[[gate={gate} n=2 id=slow]]"
    with Typed(alone, "prompt", slow, "--path", str(project("one")), "--wait") as first:
        asyncio.run(model.wait_at_gate(gate))
        second = command(alone, "prompt", "[[n=2 id=w]]", "--path", str(project("two")), "--wait")
        assert (second.code, second.out.split()) == (0, ["w-0", "w-1"]), second.err
        stored = command(alone, "prompt", "[[n=1]]", "--path", str(project("two")))
        assert (stored.code, stored.err) == (0, "")  # somebody works on it
        refused = command(alone, "serve", "--host", "tcp://127.0.0.1:0")
        assert refused.code == 1
        assert "A prompt with --wait already runs on" in refused.err
        model.open_gate(gate)
        assert first.end() == 0, first.shown
    assert "slow-0 slow-1" in first.shown
    assert not (Path(alone["CRUSH_DATA_DIR"]) / "server.json").exists()


def test_the_second_prompt_takes_over_from_a_first_one_that_was_killed(
    alone: Env, project: MakeProject
) -> None:
    path = project()
    with Typed(alone, "prompt", TOUCH, "--path", str(path), "--wait") as first:
        first.wait_for("allow?")
        with Typed(alone, "prompt", "[[n=2 id=w]]", "--path", str(path), "--wait") as second:
            second.wait_for("w-1")
            assert second.end() == 0, second.shown
        with Typed(alone, "prompt", TOUCH, "--path", str(path), "--wait") as second:
            second.wait_for("allow?")
            first.kill()
            second.type("y\n")
            assert second.end() == 0, second.shown
    assert (path / "made.txt").exists()


def test_a_prompt_that_is_only_stored_prints_a_notice(alone: Env, project: MakeProject) -> None:
    done = command(alone, "prompt", "[[n=1]]", "--path", str(project()))
    assert done.code == 0
    assert "It runs when a server starts: run `bin/serve`" in done.err
    assert len(done.out.split()) == 1


def test_pending_permission_requests_of_a_session_are_answered_first(
    alone: Env, project: MakeProject
) -> None:
    path = project()
    with Typed(alone, "prompt", TOUCH, "--path", str(path), "--wait") as first:
        first.wait_for("allow?")
        session = first.shown.split()[1]
        first.kill()
    arguments = ["prompt", "[[n=2 id=w]]", "--path", str(path), "--wait", "--session", session[:8]]
    with Typed(alone, *arguments) as second:
        second.wait_for("allow?")
        assert "An earlier prompt of this session waits: bash wants to execute" in second.shown
        assert "│ touch made.txt" in second.shown
        assert not (path / "made.txt").exists()
        second.type("y\n")
        assert second.end() == 0, second.shown
    assert (path / "made.txt").exists()
    assert "w-0 w-1" in second.shown


def test_pending_questions_of_a_session_are_answered_first(
    alone: Env, project: MakeProject
) -> None:
    path = project()
    ask = call("question", questions=[{"type": "yes_no", "question": "Really go?"}])
    with Typed(alone, "prompt", ask, "--path", str(path), "--wait") as first:
        first.wait_for("Really go?")
        session = first.shown.split()[1]
        first.kill()
    arguments = ["prompt", "[[n=2 id=w]]", "--path", str(path), "--wait", "--session", session]
    with Typed(alone, *arguments) as second:
        second.wait_for("skip it: ")
        assert "An earlier prompt of this session waits for an answer" in second.shown
        second.type("y\n")
        assert second.end() == 0, second.shown
    assert "w-0 w-1" in second.shown


def test_background_commands_that_end_with_the_prompt_are_announced(
    alone: Env, project: MakeProject
) -> None:
    sleep = call("bash", command="sleep 1000", description="Wait", run_in_background=True)
    done = command(alone, "prompt", sleep, "--path", str(project()), "--wait", "--yolo")
    assert done.code == 0, done.err
    assert "stopping a background command, because its last client leaves: sleep 1000" in done.err


def test_a_session_of_another_folder_is_refused_with_its_path(
    alone: Env, project: MakeProject
) -> None:
    one, two = str(project("one")), str(project("two"))
    session = command(alone, "prompt", "[[n=1]]", "--path", one).out.strip()
    done = command(alone, "prompt", "x", "--path", two, "--session", session[:6])
    assert done.code == 1
    assert f"Session {session} belongs to another folder: add --path {one}." in done.err


def test_trust_is_requested_before_the_prompt_is_sent(alone: Env, project: MakeProject) -> None:
    env, path = {**alone, "CRUSH_TRUST": "ask"}, str(project())
    with Typed(env, "prompt", "[[n=2 id=w]]", "--path", path, "--wait", "--yolo") as typed:
        typed.wait_for("allow? [y]es, [n]o: ")
        assert "It would send data to these addresses:" in typed.shown
        typed.type("y\n")
        assert typed.end() == 0, typed.shown  # with the model that the folder's own file names
    assert "w-0 w-1" in typed.shown


def test_a_folder_stays_untrusted_where_nobody_is_at_a_terminal(
    alone: Env, project: MakeProject
) -> None:
    env, path = {**alone, "CRUSH_TRUST": "ask"}, str(project())
    done = command(env, "prompt", "[[n=2 id=w]]", "--path", path, "--wait", "--yolo")
    assert f"not trusted: {path}" in done.err
    assert "manage.py trust" in done.err
    assert "w-0" not in done.out
