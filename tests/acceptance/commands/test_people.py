"""`manage.py token` and `user`, on the database of this machine and through a server elsewhere."""

import json
from typing import Any

import pytest

from tests.acceptance.commands.prompts import Env
from tests.acceptance.conftest import MakeProject
from tests.acceptance.harness.commands import Done, command
from tests.acceptance.harness.shapes import Server


class Elsewhere:
    """Commands of a person who has nothing but the server's address and a token."""

    def __init__(self, server: Server, home: str, token: str) -> None:
        self.url = server.url
        self.env: Env = {**server.env, "HOME": home, "CRUSH_DATA_DIR": home, "CRUSH_TOKEN": token}

    def run(self, *arguments: str, stdin: str = "") -> Done:
        return command(self.env, *arguments, "--server", self.url, stdin=stdin)

    def done(self, *arguments: str, stdin: str = "") -> str:
        done = self.run(*arguments, stdin=stdin)
        assert done.code == 0, done.err
        return done.out

    def listed(self, what: str) -> list[dict[str, Any]]:
        return list(json.loads(self.done(what, "list", "--json")))


@pytest.fixture
def staff(embedded_server: Server, tmp_path: Any) -> Elsewhere:
    token = command(embedded_server.env, "token", "create", "laptop").out.strip()
    return Elsewhere(embedded_server, str(tmp_path), token)


def test_users_are_added_and_changed_through_a_server(
    embedded_server: Server, staff: Elsewhere, project: MakeProject
) -> None:
    path = str(project())
    command(embedded_server.env, "prompt", "[[n=1]]", "--path", path, "--wait")
    assert staff.done("user", "add", "ann", "--no-password") == "Added ann.\n"
    phrase = "a long phrase 7\n"
    assert staff.done("user", "add", "bob", "--password-stdin", stdin=phrase) == "Added bob.\n"
    short = staff.run("user", "add", "eve", "--password-stdin", stdin="short\n")
    assert short.code == 1
    assert "password" in short.err
    assert staff.run("user", "add", "ann", "--no-password").code == 1
    assert staff.done("user", "role", "ann", path, "approver") == f"ann is approver in {path}.\n"
    assert staff.done("user", "disable", "bob") == "bob is kept out.\n"
    users = {user["name"]: user for user in staff.listed("user")}
    assert users["ann"]["roles"] == {path: "approver"}
    assert not users["bob"]["is_active"]
    here = command(embedded_server.env, "user", "list", "--json")
    assert json.loads(here.out) == list(users.values())
    assert staff.done("user", "role", "ann", path, "none") == f"ann has no role in {path}.\n"
    assert staff.run("user", "role", "ann", path, "none").code == 1
    assert "no user 'nobody'" in staff.run("user", "enable", "nobody").err


def test_tokens_are_created_and_revoked_through_a_server(
    embedded_server: Server, staff: Elsewhere, project: MakeProject, tmp_path: Any
) -> None:
    path = str(project())
    command(embedded_server.env, "prompt", "[[n=1]]", "--path", path, "--wait")
    staff.done("user", "add", "ann", "--no-password")
    limits = ("--scope", "read", "--scope", "account", "--workspace", path)
    anns = staff.done("token", "create", "phone", "--user", "ann", *limits).strip()
    staff.done("token", "create", "desk", "--user", "ann", "--expires", "never")
    here = json.loads(command(embedded_server.env, "token", "list", "--json").out)
    assert staff.listed("token") == here
    (phone,) = [token for token in here if token["name"] == "phone"]
    assert (phone["user"], phone["scopes"]) == ("ann", ["account", "read"])
    assert len(phone["workspaces"]) == 1
    table = staff.done("token", "list")
    assert anns not in table
    assert phone["prefix"] in table
    refused = Elsewhere(embedded_server, str(tmp_path), anns).run("user", "list")
    assert refused.code == 4
    done = staff.done("token", "revoke", phone["prefix"])
    assert done.startswith(f"phone ({phone['prefix']}…) is revoked.")
    assert Elsewhere(embedded_server, str(tmp_path), anns).run("runs").code == 4


def test_a_user_sees_only_their_own_tokens(
    embedded_server: Server, staff: Elsewhere, tmp_path: Any
) -> None:
    staff.done("user", "add", "ann", "--no-password")
    anns = staff.done("token", "create", "phone", "--user", "ann").strip()
    ann = Elsewhere(embedded_server, str(tmp_path), anns)
    assert [token["name"] for token in ann.listed("token")] == ["phone"]
    ann.done("token", "create", "tablet", "--expires", "12h")
    assert {token["name"] for token in ann.listed("token")} == {"phone", "tablet"}
