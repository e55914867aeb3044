"""Models, servers of tools, jobs, skills, sub-agents, usage and a diagnosis as native resources."""

import asyncio
import csv
import io
import json
from pathlib import Path
from typing import Any

from agents.models import Job, LanguageServer, McpServer, Run, SubAgent, UsageEntry
from tests.integration.api.client import Api
from tests.integration.api.conftest import Opened
from workspaces.access import Caller, Identity, IdentityKind, MemberRole
from workspaces.models import Session, Workspace

DAY_MS = 86_400_000


def viewer_of(*workspace_ids: str) -> Caller:
    roles = dict.fromkeys(workspace_ids, MemberRole.VIEWER)
    return Caller(Identity(IdentityKind.USER, name="ann", user_id=7, roles=roles))


def configure(folder: Path, **more: Any) -> None:
    models = [{"id": "big", "name": "Big", "cost_per_1m_in": 3}, {"id": "little", "name": "L"}]
    provider = {
        "type": "openai-compat",
        "base_url": "http://127.0.0.1:9/v1",
        "api_key": "sk-secret",
        "models": models,
    }
    chosen = {"large": {"provider": "p", "model": "big"}}
    content = {"providers": {"p": provider}, "models": chosen, **more}
    (folder / "crush.json").write_text(json.dumps(content))


def at(workspace: Opened, rest: str = "") -> str:
    return f"/api/workspaces/{workspace.id}{rest}"


# -- configuration, models, skills


async def test_models_and_providers_show_no_secret(rest: Api, workspace: Opened) -> None:
    configure(workspace.path)
    await rest.call("GET", at(workspace, "/configuration"))  # reads the files again
    models = (await rest.call("GET", at(workspace, "/models"))).json["items"]
    (big,) = [model for model in models if (model["provider"], model["id"]) == ("p", "big")]
    assert (big["name"], big["cost_per_1m_in"], big["chosen_as"]) == (
        "Big",
        3,
        ["large", "small"],
    )
    providers = (await rest.call("GET", at(workspace, "/providers"))).json["items"]
    (shown,) = [provider for provider in providers if provider["id"] == "p"]
    assert (shown["has_key"], shown["model_count"]) == (True, 2)
    answer = await rest.call("GET", at(workspace, "/configuration"))
    assert answer.json["problems"] == []
    assert "sk-secret" not in json.dumps([models, providers, answer.json])


async def test_another_model_is_chosen(rest: Api, workspace: Opened) -> None:
    configure(workspace.path)
    await rest.call("GET", at(workspace, "/configuration"))
    path = at(workspace, "/model-choices/large")
    assert (await rest.call("GET", path)).json["model"] == "big"
    answer = await rest.call("PUT", path, {"provider": "p", "model": "little"})
    assert (answer.status, answer.json["model"]) == (200, "little")
    choices = (await rest.call("GET", at(workspace, "/model-choices"))).json["items"]
    assert [choice["kind"] for choice in choices] == ["large", "small"]
    unknown = await rest.call("GET", at(workspace, "/model-choices/huge"))
    assert (unknown.status, unknown.json["code"]) == (404, "model_kind_unknown")


async def test_known_providers_need_no_workspace(rest: Api) -> None:
    known = (await rest.call("GET", "/api/known-providers")).json["items"]
    assert {"openai", "anthropic"} <= {provider["id"] for provider in known}


async def test_skills_are_listed_and_read_by_their_id(rest: Api, workspace: Opened) -> None:
    skills = (await rest.call("GET", at(workspace, "/skills"))).json["items"]
    (skill,) = [skill for skill in skills if skill["name"] == "crush-config"]
    read = (await rest.call("GET", at(workspace, f"/skills/content?id={skill['id']}"))).json
    assert read["source"] == "system"
    assert "name: crush-config" in read["content"]
    other = await rest.call("GET", at(workspace, "/skills/content?id=/etc/passwd"))
    assert (other.status, other.json["code"]) == (404, "skill_unknown")


# -- servers of tools


async def test_mcp_servers_are_those_of_rows_and_of_the_configuration(
    rest: Api, workspace: Opened
) -> None:
    off = {"type": "stdio", "command": "/bin/false", "disabled": True}
    configure(workspace.path, mcp={"off": off})
    await rest.call("GET", at(workspace, "/configuration"))
    await asyncio.to_thread(
        McpServer.objects.create,
        workspace_id=workspace.id,
        name="broken",
        state="error",
        error="It ended.",
    )
    servers = (await rest.call("GET", at(workspace, "/mcp-servers"))).json["items"]
    assert [(s["name"], s["state"], s["error"]) for s in servers] == [
        ("broken", "error", "It ended."),
        ("off", "disabled", ""),
    ]
    detail = (await rest.call("GET", at(workspace, "/mcp-servers/broken"))).json
    assert (detail["tools"], detail["prompts"], detail["resources"]) == ([], [], [])
    for method, path, body in (
        ("GET", "/mcp-servers/none", None),
        ("POST", "/mcp-servers/none/refresh", {}),
        ("POST", "/mcp-servers/none/login", {}),
        ("POST", "/mcp-servers/none/prompt", {"prompt": "x"}),
        ("POST", "/mcp-servers/none/resource", {"uri": "x:y"}),
    ):
        answer = await rest.call(method, at(workspace, path), body)
        assert (answer.status, answer.json["code"]) == (404, "mcp_server_unknown")


async def test_language_servers_have_their_states_as_words(rest: Api, workspace: Opened) -> None:
    await asyncio.to_thread(
        LanguageServer.objects.create,
        workspace_id=workspace.id,
        name="py",
        state=2,
        diagnostic_count=3,
        connected_at=5_000,
    )
    (server,) = (await rest.call("GET", at(workspace, "/language-servers"))).json["items"]
    assert server == {
        "name": "py",
        "state": "ready",
        "error": "",
        "diagnostic_count": 3,
        "connected_at": 5,
    }
    found = await rest.call("GET", at(workspace, "/language-servers/py/diagnostics"))
    assert found.json == {"files": []}
    unknown = await rest.call("GET", at(workspace, "/language-servers/go/diagnostics"))
    assert (unknown.status, unknown.json["code"]) == (404, "language_server_unknown")
    assert (await rest.call("POST", at(workspace, "/language-servers/stop"))).status == 204


# -- jobs and sub-agents


async def add_job(workspace: Opened, job_id: str, **more: Any) -> None:
    given: dict[str, Any] = {"state": "ended", "exit_code": 0, "ended_at": 9_000, **more}
    await asyncio.to_thread(
        Job.objects.create,
        id=job_id,
        workspace_id=workspace.id,
        session_id="s",
        command="make",
        working_dir="/p",
        started_at=5_000,
        **given,
    )


async def test_jobs_are_listed_with_their_output_in_pieces(
    rest: Api, workspace: Opened, tmp_path: Path
) -> None:
    output = tmp_path / "job.log"
    output.write_text("one\ntwo\nthree\n")
    await add_job(workspace, "a", output_path=str(output))
    await add_job(workspace, "b", state="lost", exit_code=None)
    jobs = (await rest.call("GET", at(workspace, "/jobs"))).json["items"]
    assert [job["id"] for job in jobs] == ["b", "a"]
    chosen = (await rest.call("GET", at(workspace, "/jobs?state=lost"))).json["items"]
    assert [job["id"] for job in chosen] == ["b"]
    detail = (await rest.call("GET", at(workspace, "/jobs/a"))).json
    assert (detail["command"], detail["exit_code"], detail["ended_at"]) == ("make", 0, 9)

    async def piece(query: str) -> tuple[str, int, int]:
        found = (await rest.call("GET", at(workspace, f"/jobs/a/output?{query}"))).json
        return found["text"], found["offset"], found["total"]

    assert await piece("") == ("one\ntwo\nthree\n", 0, 14)
    assert await piece("offset=4&limit=3") == ("two", 4, 14)
    assert await piece("tail=6") == ("three\n", 8, 14)
    assert await piece("offset=99") == ("", 14, 14)
    unknown = await rest.call("GET", at(workspace, "/jobs/c/output"))
    assert (unknown.status, unknown.json["code"]) == (404, "job_unknown")


async def test_a_job_of_another_process_is_marked_as_killed(rest: Api, workspace: Opened) -> None:
    await add_job(workspace, "a", state="ended")
    assert (await rest.call("POST", at(workspace, "/jobs/a/kill"))).json["state"] == "ended"
    assert (await rest.call("POST", at(workspace, "/jobs/x/kill"))).status == 404


async def test_sub_agents_name_their_run_and_both_sessions(rest: Api, workspace: Opened) -> None:
    parent = await workspace.session("parent")

    def add() -> None:
        child = Session.objects.create(
            id="m$$c", workspace_id=workspace.id, parent_session_id=parent
        )
        run = Run.objects.create(workspace_id=workspace.id, session=child, accept_number=1)
        SubAgent.objects.create(
            run=run, workspace_id=workspace.id, role="reader", state="ended", ending="completed"
        )

    await asyncio.to_thread(add)
    (shown,) = (await rest.call("GET", at(workspace, "/sub-agents"))).json["items"]
    assert (shown["session_id"], shown["parent_session_id"]) == ("m$$c", parent)
    assert (shown["role"], shown["state"], shown["ending"]) == ("reader", "ended", "completed")
    none = await rest.call("GET", at(workspace, "/sub-agents?state=running"))
    assert none.json["items"] == []


# -- usage


async def use(workspace_id: str, day: int = 0, **more: Any) -> None:
    given = {
        "session_id": "s",
        "user_id": 7,
        "user_name": "ann",
        "kind": "reply",
        "provider": "p",
        "model": "m",
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "cache_read_tokens": 1,
        "cache_write_tokens": 0,
        "cost": 0.5,
        "created_at": day * DAY_MS,
        **more,
    }
    await asyncio.to_thread(UsageEntry.objects.create, workspace_id=workspace_id, **given)


async def usage(rest: Api, query: str = "") -> list[dict[str, Any]]:
    answer = await rest.call("GET", f"/api/usage?{query}")
    assert answer.status == 200, answer.json
    return list(answer.json["items"])


async def test_usage_is_summed_by_what_the_query_names(rest: Api, workspace: Opened) -> None:
    await use(workspace.id, 0)
    await use(workspace.id, 1)
    await use(workspace.id, 1, user_name="bob", user_id=None, model="n")
    assert [(row["day"], row["requests"], row["cost"]) for row in await usage(rest)] == [
        ("1970-01-02", 2, 1.0),
        ("1970-01-01", 1, 0.5),
    ]
    by_user = {row["user_name"]: row for row in await usage(rest, "by=user")}
    assert (by_user["ann"]["user_id"], by_user["ann"]["prompt_tokens"]) == ("7", 20)
    assert by_user["bob"]["user_id"] is None
    (by_workspace,) = await usage(rest, "by=workspace&since=86400")
    assert (by_workspace["workspace_path"], by_workspace["requests"]) == (str(workspace.path), 2)
    assert [row["requests"] for row in await usage(rest, "by=&model=n")] == [1]
    wrong = await rest.call("GET", "/api/usage?by=hour")
    assert (wrong.status, wrong.json["errors"][0]["field"]) == (400, "by")


async def test_usage_of_other_workspaces_does_not_count(rest: Api, workspace: Opened) -> None:
    other = await asyncio.to_thread(Workspace.objects.create, path="/other", data_dir="/d")
    await use(workspace.id)
    await use(other.pk)
    assert [row["requests"] for row in await usage(rest, "by=")] == [2]
    rest.caller = viewer_of(workspace.id)
    assert [row["requests"] for row in await usage(rest, "by=")] == [1]
    assert [row["requests"] for row in await usage(rest, f"by=&workspace_id={other.pk}")] == [0]


async def test_usage_has_pages_whose_cursor_is_a_group(rest: Api, workspace: Opened) -> None:
    for day in range(5):
        await use(workspace.id, day)
    days, cursor = [], ""
    for _ in range(3):
        page = (await rest.call("GET", f"/api/usage?limit=2{cursor}")).json
        days += [row["day"] for row in page["items"]]
        cursor = f"&cursor={page['next']}"
    assert days == [f"1970-01-0{number}" for number in (5, 4, 3, 2, 1)]
    assert page["next"] is None
    for wrong in ("nothing", "WzFd", "e30="):
        assert (await rest.call("GET", f"/api/usage?cursor={wrong}")).status == 400


async def test_usage_as_a_table_computes_nothing(rest: Api, workspace: Opened) -> None:
    await use(workspace.id, user_name="=1+1", model='a"b,c')
    answer = await rest.call("GET", "/api/usage/csv?by=user,model")
    rows = list(csv.DictReader(io.StringIO(answer.body.decode())))
    assert (rows[0]["user_name"], rows[0]["model"], rows[0]["cost"]) == ("'=1+1", 'a"b,c', "0.5")


# -- diagnosis


async def test_a_diagnosis_names_models_and_mistakes(rest: Api, folder: Path) -> None:
    configure(folder, colours={})
    report = (await rest.call("POST", "/api/diagnosis", {"path": str(folder)})).json
    assert report["models"]["large"] == {"provider": "p", "model": "big", "fault": ""}
    assert any("colours" in problem["text"] for problem in report["problems"])
    assert "sk-secret" not in json.dumps(report)
    missing = await rest.call("POST", "/api/diagnosis", {"path": "/none"})
    assert (missing.status, missing.json["code"]) == (400, "bad_field")
