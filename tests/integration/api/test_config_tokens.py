"""OAuth tokens are made new where the token says, once, and shown to nobody."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from agents.config.cache import configs
from tests.integration.api.conftest import Opened


class Issuer:
    def __init__(self) -> None:
        self.url = ""
        self.asked: list[dict[str, str]] = []
        self.answer: Any = {
            "access_token": "new-access",
            "refresh_token": "new-refresh",
            "expires_in": 60,
        }
        self.status = 200
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def token(self, request: web.Request) -> web.Response:
        self.asked.append({name: str(value) for name, value in (await request.post()).items()})
        await self.may_answer.wait()
        if isinstance(self.answer, bytes):
            return web.Response(body=self.answer, status=self.status)
        return web.json_response(self.answer, status=self.status, headers={"Location": self.url})


@pytest_asyncio.fixture
async def issuer() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    app = web.Application()
    app.router.add_post("/token", issuer.token)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}/token"
    yield issuer
    await runner.cleanup()


async def store(workspace: Opened, token: dict[str, Any]) -> None:
    body = {"scope": 1, "provider_id": "openai", "kind": "oauth", "api_key": token}
    await workspace.api.post(f"{workspace.url}/config/provider-key", body)


async def refresh(workspace: Opened, provider: str = "openai") -> Any:
    body = {"scope": 1, "provider_id": provider}
    return await workspace.api.call("POST", f"{workspace.url}/config/refresh-oauth", body)


def stored(workspace: Opened) -> Any:
    return json.loads((workspace.path / ".crush" / "crush.json").read_text())["providers"]["openai"]


async def test_a_token_is_made_new_and_stored(workspace: Opened, issuer: Issuer) -> None:
    token = {
        "access_token": "old",
        "refresh_token": "r",
        "token_url": issuer.url,
        "client_id": "me",
    }
    await store(workspace, token)
    answer = await refresh(workspace)
    assert (answer.status, answer.body) == (200, b"")
    assert issuer.asked == [
        {"grant_type": "refresh_token", "refresh_token": "r", "client_id": "me"}
    ]
    kept = stored(workspace)
    assert kept["api_key"] == "new-access"
    assert kept["oauth"]["refresh_token"] == "new-refresh"
    assert kept["oauth"]["token_url"] == issuer.url
    assert kept["oauth"]["expires_in"] == 60
    shown = json.dumps(await workspace.api.get(f"{workspace.url}/config"))
    assert "new-access" not in shown
    assert "new-refresh" not in shown


async def test_many_who_ask_at_once_use_a_refresh_token_once(
    workspace: Opened, issuer: Issuer
) -> None:
    await store(workspace, {"access_token": "a", "refresh_token": "r", "token_url": issuer.url})
    issuer.may_answer.clear()
    asking = [asyncio.create_task(refresh(workspace)) for _ in range(8)]
    async with asyncio.timeout(60):
        while "waiters:7" not in repr(configs().refreshing):  # the others wait for the one
            await asyncio.sleep(0.01)
    issuer.may_answer.set()
    answers = await asyncio.gather(*asking)
    assert {answer.status for answer in answers} == {200}
    assert len(issuer.asked) == 1


@pytest.mark.parametrize(
    "token",
    [
        None,
        {"access_token": "a"},
        {"access_token": "a", "refresh_token": "r"},
        {"access_token": "a", "refresh_token": 7, "token_url": "http://127.0.0.1/"},
        {"access_token": "a", "refresh_token": "r", "token_url": "http://other.example/"},
        {"access_token": "a", "refresh_token": "r", "token_url": "file:///etc/passwd"},
    ],
)
async def test_a_token_that_cannot_be_refreshed_is_refused(
    workspace: Opened, token: dict[str, Any] | None
) -> None:
    if token is not None:
        await store(workspace, token)
    assert (await refresh(workspace)).status == 400


async def test_a_project_cannot_say_where_a_token_is_sent(
    workspace: Opened, issuer: Issuer
) -> None:
    await store(workspace, {"access_token": "a", "refresh_token": "r"})
    theirs = {"providers": {"openai": {"oauth": {"token_url": issuer.url}}}}
    (workspace.path / "crush.json").write_text(json.dumps(theirs))
    assert (await refresh(workspace)).status == 400
    assert issuer.asked == []


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (400, {"error": "invalid_grant", "error_description": "secret-r"}),
        (307, {}),
        (200, b"secret-r"),
        (200, []),
        (200, {"access_token": ""}),
        (200, {"access_token": ["secret-r"]}),
    ],
)
async def test_what_the_provider_refuses_is_told_without_its_words(
    workspace: Opened, issuer: Issuer, status: int, answer: Any
) -> None:
    issuer.status, issuer.answer = status, answer
    token = {"access_token": "a", "refresh_token": "secret-r", "token_url": issuer.url}
    await store(workspace, token)
    refused = await refresh(workspace)
    assert refused.status == 409
    assert "secret-r" not in refused.message
    assert len(issuer.asked) == 1
    assert stored(workspace)["api_key"] == "a"


async def test_copilot_is_not_imported(workspace: Opened) -> None:
    answer = await workspace.api.post(f"{workspace.url}/config/import-copilot")
    assert answer == {"token": None, "success": False}
    unknown = await workspace.api.call("POST", "/v1/workspaces/unknown/config/import-copilot")
    assert unknown.status == 404
