"""The commands that list and change what a server has, here and elsewhere."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import call
from tests.acceptance.commands.prompts import TOUCH, Env, sessions
from tests.acceptance.conftest import MakeProject
from tests.acceptance.harness.commands import Typed, command
from tests.acceptance.harness.environment import ROOT
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server


def printed(env: Env, *arguments: str) -> Any:
    done = command(env, *arguments, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def parked(server: Server, path: Path, prompt: str = TOUCH) -> str:
    """The session of a run that waits for an answer."""
    done = command(server.env, "prompt", prompt, "--path", str(path))
    assert done.code == 0, done.err
    session = done.out.strip()
    with Typed(server.env, "attach", session, "--path", str(path)) as typed:
        typed.wait_for("allow?" if prompt == TOUCH else "Really go?")
        typed.kill()
    return session


def test_a_request_is_listed_and_answered_by_its_beginning(
    shared_server: Server, project: MakeProject
) -> None:
    path = project()
    session = parked(shared_server, path)
    open_here = [
        each
        for each in printed(shared_server.env, "approvals")["approvals"]
        if each["session_id"] == session
    ]
    (request,) = open_here
    row = next(
        line
        for line in command(shared_server.env, "approvals").out.splitlines()
        if request["id"][:8] in line
    )
    assert "bash execute: touch made.txt" in row
    shown = command(shared_server.env, "answer", request["id"])
    assert shown.code == 1
    assert "touch made.txt" in shown.err
    done = command(shared_server.env, "answer", request["id"][:13], "allow")
    assert (done.code, done.out) == (0, "Allowed.\n"), done.err
    again = command(shared_server.env, "answer", request["id"], "deny")
    assert again.code == 1
    waited = command(
        shared_server.env, "prompt", "[[n=1]]", "--session", session, "--path", str(path), "--wait"
    )
    assert waited.code == 0, waited.err
    assert (path / "made.txt").exists()
    past = printed(shared_server.env, "approvals", "--past")["approvals"]
    assert request["id"] in {each["id"] for each in past}


def test_questions_are_answered_by_options(shared_server: Server, project: MakeProject) -> None:
    path = project()
    session = parked(
        shared_server,
        path,
        call("question", questions=[{"type": "yes_no", "question": "Really go?"}]),
    )
    (batch,) = [
        each
        for each in printed(shared_server.env, "approvals")["questions"]
        if each["session_id"] == session
    ]
    assert command(shared_server.env, "answer", batch["id"], "allow").code == 1
    done = command(shared_server.env, "answer", batch["id"], "--response", "yes")
    assert (done.code, done.out) == (0, "Answered.\n"), done.err


def test_runs_and_the_queue_are_listed_and_changed(
    shared_server: Server, project: MakeProject
) -> None:
    path = project()
    session = parked(shared_server, path)
    here = ("--path", str(path))
    for word in ("first", "second"):
        command(shared_server.env, "prompt", f"[[n=1 id={word}]]", "--session", session, *here)
    queue = printed(shared_server.env, "queue", session, *here)
    assert [run["prompt"] for run in queue] == ["[[n=1 id=first]]", "[[n=1 id=second]]"]
    first, second = (str(run["key"]) for run in queue)
    queue = printed(shared_server.env, "queue", session, "--first", second, *here)
    assert [str(run["key"]) for run in queue] == [second, first]
    queue = printed(shared_server.env, "queue", session, "--edit", first, "[[n=1]]", *here)
    assert queue[1]["prompt"] == "[[n=1]]"
    queue = printed(shared_server.env, "queue", session, "--remove", first, *here)
    assert [str(run["key"]) for run in queue] == [second]
    runs = printed(shared_server.env, "runs", *here)
    assert {run["state"] for run in runs} == {"parked", "accepted", "finished"}
    assert "parked" in command(shared_server.env, "runs", *here).out
    assert f"run           {second}" in command(shared_server.env, "runs", second, *here).out
    done = command(shared_server.env, "cancel", session, "--server", shared_server.url, *here)
    assert done.out == "Cancelled 2 prompts.\n", done.err
    states = {run["state"] for run in printed(shared_server.env, "runs", *here)}
    assert states == {"finished"}


@pytest.mark.server_env(CRUSH_MAX_RUNS="1")
async def test_a_prompt_that_waits_for_a_worker_has_its_place(
    embedded_server: Server, project: MakeProject, model: ScriptedModel
) -> None:
    path = project()
    here = ("--path", str(path))
    gate = model.new_gate()
    command(embedded_server.env, "prompt", f"[[n=1 gate={gate}]]", *here)
    await model.wait_at_gate(gate)
    command(embedded_server.env, "prompt", "[[n=1 id=second]]", "--scheduled", *here)
    done = command(embedded_server.env, "prompt", "[[n=1 id=first]]", *here)
    session = done.out.strip()
    command(embedded_server.env, "prompt", "[[n=1 id=behind]]", "--session", session, *here)

    places = {
        run["prompt"]: run.get("queue_place")
        for run in printed(embedded_server.env, "runs", "--state", "accepted", *here)
    }
    assert places == {"[[n=1 id=first]]": 1, "[[n=1 id=second]]": 2, "[[n=1 id=behind]]": None}
    queue = printed(embedded_server.env, "queue", session, *here)
    assert [(run["prompt"], run.get("queue_place")) for run in queue] == [
        ("[[n=1 id=first]]", 1),
        ("[[n=1 id=behind]]", None),
    ]
    model.open_gate(gate)


def test_a_session_is_shown(shared_server: Server, project: MakeProject) -> None:
    path = project()
    (path / "evil.txt").write_text("one\x1b]0;owned\x07two\n")
    view = call("view", file_path=str(path / "evil.txt"))
    command(shared_server.env, "prompt", f"{view} [[n=3 id=w]]", "--path", str(path), "--wait")
    done = command(shared_server.env, "show", "--path", str(path))
    assert done.code == 0, done.err
    assert "w-0 w-1 w-2" in done.out
    assert "→ view" in done.out
    assert "\x1b" not in done.out
    shown = printed(shared_server.env, "show", "--path", str(path), "--limit", "1")
    assert [message["role"] for message in shown["messages"]] == ["assistant"]


def test_models_are_listed(shared_server: Server, project: MakeProject) -> None:
    path = str(project())
    found = printed(shared_server.env, "models", "--path", path)
    assert [model["used_as"] for model in found[:2]] == [["large"], ["small"]]
    assert "fake-large" in command(shared_server.env, "models", "--path", path).out


def test_lists_need_no_running_server(project: MakeProject, alone: Env) -> None:
    path = str(project())
    command(alone, "prompt", "[[n=3 id=w]]", "--path", path, "--wait")
    (session,) = sessions(alone, path)
    assert "w-0 w-1 w-2" in command(alone, "show", session["id"][:8], "--path", path).out
    assert printed(alone, "runs", "--path", path)[0]["outcome"] == "completed"
    assert command(alone, "approvals").out == "Nothing waits.\n"
    assert not (Path(alone["CRUSH_DATA_DIR"]) / "server.json").exists()


def test_a_prompt_prints_json_and_keeps_its_budget(
    shared_server: Server, project: MakeProject
) -> None:
    here = ("--path", str(project()), "--wait")
    done = command(shared_server.env, "prompt", "[[n=2 id=w]]", "--json", *here)
    result = json.loads(done.out)
    assert (result["outcome"], result["text"].split()) == ("completed", ["w-0", "w-1"])
    words = ("prompt", "[[n=2 id=w]]", "--output-format", "stream-json")
    lines = [
        json.loads(line) for line in command(shared_server.env, *words, *here).out.splitlines()
    ]
    assert lines[-1]["type"] == "result"
    assert "run.finished" in {line["type"] for line in lines if isinstance(line, dict)}
    assert any(isinstance(line, list) for line in lines)
    once = ("--budget", "1step", "--yolo")
    done = command(shared_server.env, "prompt", TOUCH, "--json", *once, *here)
    assert done.code == 5, done.err
    assert json.loads(done.out)["outcome"] == "over_budget"
    done = command(shared_server.env, "prompt", "x", "--model", "no/such", *here)
    assert done.code == 1
    assert "options.model" in done.err


def test_the_exit_code_names_what_failed(shared_server: Server, tmp_path: Path) -> None:
    env = {**shared_server.env, "CRUSH_TOKEN": "crush_wrong"}
    for arguments in (["runs"], ["prompt", "x"], ["sessions"]):
        done = command(env, *arguments, "--server", shared_server.url)
        assert done.code == 4, done
        assert "Traceback" not in done.err
        done = command(env, *arguments, "--server", "http://127.0.0.1:1")
        assert done.code == 3, done
    assert command(env, "runs", "--nonsense").code == 2
    assert command(env, "show", "zzzzzz", "--path", str(tmp_path)).code == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_is_a_script_of_its_shell(shell: str, alone: Env) -> None:
    done = command(alone, "completion", shell)
    assert done.code == 0
    assert "crush-server completion --words" in done.out


def test_bash_completes_a_command(alone: Env, tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(command(alone, "completion", "bash").out)
    program = f'crush-server() {{ python {ROOT}/crushsite/__main__.py "$@"; }}'
    typing = f"source {script}; COMP_WORDS=(crush-server att); COMP_CWORD=1; _crush_server"
    done = subprocess.run(
        ["bash", "-c", f'{program}; {typing}; echo "${{COMPREPLY[@]}}"'],
        env={**alone, "PATH": f"{ROOT}/.venv/bin:/usr/bin:/bin"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "attach\n", done.stderr


def test_a_session_is_exported_and_imported(
    shared_server: Server, project: MakeProject, tmp_path: Path
) -> None:
    path, other = str(project()), str(project("other"))
    env = shared_server.env
    command(env, "prompt", "[[n=3 id=w]]", "--path", path, "--wait")
    file = tmp_path / "session.jsonl"
    done = command(env, "export", "--path", path, "-o", str(file))
    assert (done.code, file.stat().st_mode & 0o777) == (0, 0o600), done.err
    assert "exists already" in command(env, "export", "--path", path, "-o", str(file)).err
    assert command(env, "export", "--path", path).out == file.read_text()
    done = command(env, "import", str(file), "--path", other)
    assert done.code == 0, done.err
    (copy,) = sessions(env, other)
    assert done.out.strip() == copy["id"]
    shown = command(env, "export", copy["id"], "--path", other, "--format", "markdown")
    assert "w-0 w-1 w-2" in shown.out
    assert command(env, "import", "-", "--path", other, stdin="nonsense").code == 1


def test_usage_is_summed_up(shared_server: Server, project: MakeProject) -> None:
    env = shared_server.env
    command(env, "prompt", "[[n=3 id=w]]", "--path", str(project()), "--wait")
    rows = printed(env, "usage", "--by", "model,user", "--since", "1d")
    assert {"fake-large"} <= {row["model"] for row in rows}
    assert "fake-large" in command(env, "usage", "--by", "model").out
    assert command(env, "usage", "--by", "colour").code == 1


def test_old_sessions_are_deleted_after_a_confirmation(project: MakeProject, alone: Env) -> None:
    path = str(project())
    for words in ("[[n=1 id=a]]", "[[n=1 id=b]]"):
        command(alone, "prompt", words, "--path", path, "--wait")
    assert len(sessions(alone, path)) == 2
    assert "No session is that old" in command(alone, "prune", "--older-than", "1d").out
    done = command(alone, "prune", "--older-than", "0d")
    assert done.code == 1
    assert "--yes" in done.err
    assert len(printed(alone, "prune", "--older-than", "0d", "--dry-run")) == 2
    done = command(alone, "prune", "--older-than", "0d", "--yes")
    assert done.code == 0, done.err
    assert "Deleted 2 sessions." in done.err
    assert sessions(alone, path) == []


def test_old_rows_are_counted_and_then_deleted(project: MakeProject, alone: Env) -> None:
    path, other = str(project()), str(project("other"))
    for folder in (path, other):
        command(alone, "prompt", "[[n=1]]", "--path", folder, "--wait")
    chosen = ("prune", "--kind", "events", "--older-than", "0d", "--path", path)
    (found,) = printed(alone, *chosen, "--dry-run")
    assert (found["kind"], found["days"], found["deleted"]) == ("events", 0, 0)
    assert found["rows"] > 5
    refused = command(alone, *chosen)
    assert (refused.code, "--yes" in refused.err) == (1, True)
    assert printed(alone, *chosen, "--yes") == [found | {"deleted": found["rows"]}]
    assert printed(alone, *chosen, "--yes") == [found | {"rows": 0}]
    # Without an age it is the one of the settings.
    kinds = printed(alone, "prune", "--kind", "events", "--kind", "steps", "--yes")
    assert [(each["kind"], each["days"], each["rows"]) for each in kinds] == [
        ("events", 7, 0),
        ("steps", 90, 0),
    ]
    assert len(sessions(alone, path)) == 1
    for arguments, problem in (
        (("--kind", "audit"), "Name an age for audit"),
        (("--kind", "notices", "--older-than", "0d"), "at least 1d"),
        (("--kind", "expired", "--path", path), "belong to no folder"),
        (("--kind", "steps", "--path", str(project("unknown"))), "No client has opened"),
        (("--kind", "steps", "--archived"), "--archived"),
        ((), "--older-than"),
    ):
        refused = command(alone, "prune", *arguments)
        assert (refused.code, problem in refused.err) == (1, True), refused.err
