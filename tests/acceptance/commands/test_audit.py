"""`manage.py audit`."""

import json

from tests.acceptance.commands.prompts import Env
from tests.acceptance.conftest import MakeProject
from tests.acceptance.harness.commands import Typed, command
from tests.acceptance.harness.shapes import Server


def test_the_audit_is_the_same_through_an_address(
    shared_server: Server, project: MakeProject
) -> None:
    env = shared_server.env
    command(env, "prompt", "[[n=1]]", "--path", str(project()))
    here = command(env, "audit", "--limit", "5").out.splitlines()
    elsewhere = command(env, "audit", "--limit", "5", "--server", shared_server.url).out
    assert "prompt " in elsewhere
    assert set(elsewhere.splitlines()) & set(here)


def test_the_audit_of_one_folder_also_when_it_is_closed(
    embedded_server: Server, project: MakeProject
) -> None:
    env, one, two = embedded_server.env, str(project("one")), str(project("two"))
    for path in (one, two):
        assert command(env, "prompt", "[[n=1]]", "--path", path, "--wait").code == 0
    found = command(env, "audit", "--workspace", two, "--json").out.splitlines()
    assert [json.loads(line)["act"] for line in found] == ["prompt"]
    assert len(command(env, "audit").out.splitlines()) == 2
    refused = command(env, "audit", "--workspace", "/nowhere")
    assert refused.code == 1
    assert "/nowhere is not a workspace" in refused.err


def test_following_shows_new_acts_through_a_restart_of_the_server(
    embedded_server: Server, project: MakeProject
) -> None:
    env, path = embedded_server.env, str(project())
    with Typed(env, "audit", "--follow") as typed:
        for word in ("before", "after"):
            done = command(env, "token", "create", word)
            assert done.code == 0, done.err
            typed.wait_for(f"create token {word}")
            embedded_server.kill9()
            embedded_server.restart()
        command(env, "prompt", "[[n=1]]", "--path", path)
        typed.wait_for("prompt ")
        typed.interrupt()
        assert typed.end() == 0
    assert typed.shown.count("create token before") == 1


def test_following_keeps_no_server_from_starting(alone: Env) -> None:
    with Typed(alone, "audit", "--follow") as typed:
        done = command(alone, "token", "create", "early")
        assert done.code == 0, done.err
        serving = Typed(alone, "serve", "--host", "tcp://127.0.0.1:0")
        with serving:
            serving.wait_for("Serving")
            typed.wait_for("create token early")
            serving.interrupt()
            assert serving.end() == 0
        typed.interrupt()
        assert typed.end() == 0
