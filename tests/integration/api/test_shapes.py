"""Every answer has exactly the fields that recorded clients were given."""

import pytest

from tests.integration.api.client import Api
from tests.integration.api.conftest import Opened

SESSION = {
    "attached_clients", "completion_tokens", "cost", "created_at", "id", "is_busy",
    "message_count", "parent_session_id", "prompt_tokens", "summary_message_id", "title",
    "updated_at",
}  # fmt: skip
MODEL = {
    "can_reason", "context_window", "cost_per_1m_in", "cost_per_1m_in_cached", "cost_per_1m_out",
    "cost_per_1m_out_cached", "default_max_tokens", "id", "name", "supports_attachments",
}  # fmt: skip


async def test_health_is_empty_without_a_content_type(api: Api) -> None:
    answer = await api.call("GET", "/v1/health")
    assert (answer.status, answer.content_type, answer.body) == (200, "", b"")


async def test_version(api: Api) -> None:
    version = await api.get("/v1/version")
    assert set(version) == {"build_id", "commit", "go_version", "platform", "version"}
    assert all(isinstance(value, str) for value in version.values())


async def test_the_server_has_no_configuration_of_its_own(api: Api) -> None:
    assert await api.get("/v1/config") == {}


async def test_json_has_its_plain_content_type(api: Api) -> None:
    assert (await api.call("GET", "/v1/config")).content_type == "application/json"


async def test_a_workspace(workspace: Opened) -> None:
    shown = workspace.answer
    assert set(shown) == {"config", "data_dir", "env", "id", "path", "skills", "version"}
    assert shown["env"] == []
    assert shown["path"] == str(workspace.path)
    assert shown["data_dir"] == f"{workspace.path}/.crush"
    assert shown["config"]["options"]["data_directory"] == shown["data_dir"]
    assert isinstance(shown["config"]["options"]["tui"], dict)
    assert shown["config"]["models"]["large"]["provider"] in shown["config"]["providers"]
    assert await workspace.api.get(workspace.url) == shown
    assert await workspace.api.get("/v1/workspaces") == [shown]


async def test_the_skills_that_come_with_the_server(workspace: Opened) -> None:
    names = ["crush-config", "crush-hooks"]
    paths = [f"crush://skills/{name}/SKILL.md" for name in names]
    assert workspace.answer["skills"] == [
        {"name": name, "path": path, "state": 0} for name, path in zip(names, paths, strict=True)
    ]
    skills = await workspace.api.get(f"{workspace.url}/skills")
    assert [skill["id"] for skill in skills] == paths
    assert set(skills[0]) == {"description", "id", "label", "name", "source", "user_invocable"}


async def test_its_configuration(workspace: Opened) -> None:
    assert await workspace.api.get(f"{workspace.url}/config") == workspace.answer["config"]


async def test_known_providers(workspace: Opened) -> None:
    providers = await workspace.api.get(f"{workspace.url}/providers")
    assert {"anthropic", "openai", "minimax"} <= {provider["id"] for provider in providers}
    levels = {"reasoning_levels", "default_reasoning_effort"}
    assert set(providers[0]["models"][0]) == MODEL | levels
    assert all("default_headers" in provider for provider in providers)


async def test_a_session(workspace: Opened) -> None:
    made = await workspace.api.post(f"{workspace.url}/sessions", {"title": "t"})
    assert set(made) == SESSION
    assert made["title"] == "t"
    address = f"{workspace.url}/sessions/{made['id']}"
    assert await workspace.api.get(address) == made
    assert await workspace.api.get(f"{workspace.url}/sessions") == [made]
    assert await workspace.api.get(f"{workspace.url}/agent/sessions/{made['id']}") == made


async def test_an_idle_agent(workspace: Opened) -> None:
    agent = await workspace.api.get(f"{workspace.url}/agent")
    assert set(agent) == {"is_busy", "is_ready", "model", "model_cfg"}
    assert (agent["is_busy"], agent["is_ready"]) == (False, True)
    assert set(agent["model"]) == MODEL
    assert {"model", "provider"} <= set(agent["model_cfg"])


async def test_the_default_small_model_of_a_known_provider(workspace: Opened) -> None:
    address = f"{workspace.url}/agent/default-small-model?provider_id=anthropic"
    chosen = await workspace.api.get(address)
    assert set(chosen) == {"max_tokens", "model", "provider"}
    assert chosen["provider"] == "anthropic"


async def test_the_default_small_model_of_another_is_the_large_one(workspace: Opened) -> None:
    address = f"{workspace.url}/agent/default-small-model?provider_id=fake"
    chosen = await workspace.api.get(address)
    assert chosen == workspace.answer["config"]["models"]["large"]


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("sessions", []),
        ("messages/user", []),
        ("lsps", {}),
        ("mcp/states", {}),
        ("mcp/pending-auth", []),
        ("mcp/prompts", []),
        ("permissions/skip", {"skip": False}),
    ],
)
async def test_what_a_client_polls_in_a_new_workspace(
    workspace: Opened, path: str, shape: object
) -> None:
    assert await workspace.api.get(f"{workspace.url}/{path}") == shape


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("sessions/{}/messages", []),
        ("sessions/{}/messages/user", []),
        ("sessions/{}/children", []),
        ("sessions/{}/history", []),
        ("sessions/{}/filetracker/files", []),
        ("agent/sessions/{}/prompts/queued", 0),
        ("agent/sessions/{}/prompts/list", None),
    ],
)
async def test_what_a_client_reads_of_a_new_session(
    workspace: Opened, path: str, shape: object
) -> None:
    session_id = await workspace.session()
    assert await workspace.api.get(f"{workspace.url}/{path.format(session_id)}") == shape


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "agent/init", {"interactive": True}),
        ("POST", "agent/init", None),
        ("POST", "agent/update", None),
        ("POST", "permissions/skip", {"skip": True}),
        ("POST", "agent/sessions/{session}/cancel", None),
        ("POST", "agent/sessions/{session}/prompts/clear", None),
        ("DELETE", "sessions/{session}", None),
        ("DELETE", "?client_id={client}", None),
    ],
)
async def test_an_answer_without_a_body_has_no_content_type(
    workspace: Opened, method: str, path: str, body: object
) -> None:
    path = path.format(session=await workspace.session(), client=workspace.client_id)
    address = f"{workspace.url}/{path}".replace("/?", "?")
    answer = await workspace.api.call(method, address, body)
    assert (answer.status, answer.content_type, answer.body) == (200, "", b"")


async def test_an_accepted_prompt_is_answered_empty(workspace: Opened) -> None:
    body = {"session_id": await workspace.session(), "prompt": "hello"}
    answer = await workspace.api.call("POST", f"{workspace.url}/agent", body)
    assert (answer.status, answer.content_type, answer.body) == (202, "", b"")
    assert (await workspace.api.get(f"{workspace.url}/agent"))["is_busy"] is True
