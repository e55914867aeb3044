"""A run ends: messages on every channel to who sent its prompt, with a real server."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import orjson

from tests.acceptance.calling import bash, permission_request
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.notifications.conftest import Scene
from tests.acceptance.notifications.receivers import PushedBrowser, is_signed


async def webhook(scene: Scene, **more: Any) -> dict[str, Any]:
    return await scene.channel(kind="webhook", url=scene.receiver.url, **more)


async def run(scene: Scene, prompt: str, title: str = "Fix the build") -> str:
    """Returns a session in which this prompt has ended."""
    session = await scene.seat.workspace.session(title)
    await scene.seat.workspace.prompt(session, prompt)
    await scene.seat.stream.run_complete(session)
    return session


async def until_test(scene: Scene, channel: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the messages that come before a test message, which is sent last."""
    await eventually_noticed(scene)
    await scene.call("POST", f"/api/notifications/channels/{channel['id']}/test")
    got: list[dict[str, Any]] = []
    while not got or got[-1]["type"] != "test":
        got.append(orjson.loads((await scene.receiver.next())[1]))
    return got[:-1]


async def eventually_noticed(scene: Scene) -> None:
    """Waits until the server has decided about the ends of all runs before."""
    session = await run(scene, "[[n=2]]", "the last one")
    path = "/api/notifications/ends?cursor=0"
    async with asyncio.timeout(30):
        while True:
            items = (await scene.call("GET", path))["items"]
            if session in {item["session_id"] for item in items}:
                return
            await asyncio.sleep(0.05)


async def test_a_webhook_a_mail_and_a_browser_hear_of_an_end(scene: Scene) -> None:
    me = await scene.call("GET", "/api/me")
    await scene.call("PATCH", f"/api/users/{me['user_id']}", {"email": "owner@example.com"})
    made = await webhook(scene)
    assert (made["notify_waiting"], made["notify_ended"]) == (True, "own")
    await scene.channel(kind="email")
    session = await run(scene, "SECRET-PROMPT [[n=3]]")
    headers, body = await scene.receiver.next()
    assert is_signed(headers, body, made["secret"])
    message = orjson.loads(body)
    assert (message["type"], message["title"]) == ("run.finished", "Done: Fix the build")
    assert message["run"]["outcome"] == "completed"
    page = f"/w/{scene.seat.workspace.id}/s/{session}"
    assert message["link"].endswith(page)
    assert "request" not in message
    to, mail = await scene.mails.next()
    assert (to, mail["Subject"]) == (["owner@example.com"], "Done: Fix the build")
    text = mail.get_payload(decode=True).decode()
    assert page in text
    assert b"SECRET" not in body + text.encode()
    await scene.call("DELETE", f"/api/notifications/channels/{made['id']}")
    browser = PushedBrowser(scene.receiver.url)
    await scene.channel(kind="web_push", **browser.subscription)
    session = await run(scene, "[[status=401]]", "Broken")
    pushed = browser.decrypt((await scene.receiver.next())[1])
    assert pushed["title"] == "Failed: Broken"
    assert pushed["url"] == f"/w/{scene.seat.workspace.id}/s/{session}"
    log = (await scene.call("GET", "/api/notifications/deliveries"))["items"]
    assert {entry["subject"] for entry in log} == {"run"}


async def test_an_end_survives_a_kill_of_the_server(scene: Scene) -> None:
    """Between the end and its delivery; the same message comes again, and no second one."""
    made = await webhook(scene)
    scene.receiver.statuses = [500]
    session = await run(scene, "[[n=3]]")
    first, _ = await scene.receiver.next()
    scene.server.kill9()
    scene.server.start()
    second, body = await scene.receiver.next()
    assert second["webhook-id"] == first["webhook-id"]
    assert is_signed(second, body, made["secret"])
    assert orjson.loads(body)["session"]["id"] == session


async def test_a_run_that_was_at_work_when_its_server_was_killed_is_news_when_it_ends(
    scene: Scene, model: ScriptedModel
) -> None:
    await webhook(scene)
    gate = model.new_gate()
    session = await scene.seat.workspace.session("Half done")
    await scene.seat.workspace.prompt(session, f"[[gate={gate}]]")
    await model.wait_at_gate(gate)
    scene.server.kill9()
    model.open_gate(gate)
    scene.server.start()
    message = orjson.loads((await scene.receiver.next())[1])
    assert message["title"] == "Done: Half done"
    assert message["session"]["id"] == session


async def test_no_message_to_someone_who_is_looking_or_has_cancelled(
    scene: Scene, model: ScriptedModel
) -> None:
    made = await webhook(scene)
    looked_at = await scene.seat.workspace.session("looked at")
    await scene.seat.workspace.set_current(looked_at)
    await scene.seat.workspace.prompt(looked_at, "[[n=3]]")
    await scene.seat.stream.run_complete(looked_at)
    gate = model.new_gate()
    cancelled = await scene.seat.workspace.session("cancelled")
    await scene.seat.workspace.prompt(cancelled, f"[[gate={gate}]]")
    await model.wait_at_gate(gate)
    await scene.seat.workspace.cancel(cancelled)
    await scene.seat.stream.run_complete(cancelled)
    model.open_gate(gate)
    assert [each["title"] for each in await until_test(scene, made)] == ["Done: the last one"]


async def test_a_prompt_of_a_tool_is_no_news_and_its_run_is(scene: Scene) -> None:
    """A command of an agent sends a prompt, as its owner: nobody waits for that."""
    made = await webhook(scene, notify_waiting=False, notify_ended="all")
    workspace = scene.seat.workspace
    other = await workspace.session("by a tool")
    body = orjson.dumps({"session_id": other, "prompt": "[[n=2]]"}).decode()
    url = f"{scene.server.url}/v1/workspaces/{workspace.id}/agent"
    native = f"{scene.server.url}/api/workspaces/{workspace.id}/sessions/{other}/prompts"
    script = (
        f"curl -s -o /dev/null -w '%{{http_code}} ' '{url}?client_id={workspace.client_id}'"
        f" -H 'Content-Type: application/json' -d @{workspace.path}/body.json;"
        f" curl -s -o /dev/null -w '%{{http_code}}' '{native}'"
        f" -H 'Content-Type: application/json' -d @{workspace.path}/native.json"
    )
    (workspace.path / "body.json").write_text(body)
    (workspace.path / "native.json").write_text(orjson.dumps({"text": "[[n=2]]"}).decode())
    session = await workspace.session("by a person")
    start = scene.seat.stream.mark()
    await workspace.prompt(session, bash(script))
    await workspace.grant(await permission_request(scene.seat, session, start=start))
    await scene.seat.stream.run_complete(session, start=start)
    assert "202 202" in str(await workspace.messages(session))
    runs = f"/api/workspaces/{workspace.id}/runs?session={other}&state=finished"
    async with asyncio.timeout(30):
        while len((await scene.call("GET", runs))["items"]) < 2:
            await asyncio.sleep(0.05)
    titles = [each["title"] for each in await until_test(scene, made)]
    assert sorted(titles) == ["Done: by a person", "Done: the last one"]


async def test_a_colleague_gets_ends_if_they_chose_all(scene: Scene) -> None:
    assert command(scene.server.env, "user", "add", "ann", "--no-password").code == 0
    members = f"/api/workspaces/{scene.seat.workspace.id}/members"
    await scene.call("POST", members, {"name": "ann", "role": "viewer"})
    token = command(scene.server.env, "token", "create", "t", "--user", "ann").out.strip()
    base = f"{scene.server.url}/api/notifications/channels"
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http:
        body = {"kind": "webhook", "url": scene.receiver.url}
        async with http.post(base, json=body) as answer:
            assert answer.status == 201, await answer.text()
            channel = await answer.json()
        await run(scene, "[[n=2]]", "before")
        await eventually_noticed(scene)
        off = {"notify_waiting": False, "notify_ended": "none"}
        async with http.patch(f"{base}/{channel['id']}", json=off) as answer:
            assert answer.status == 400
            assert "is_enabled" in await answer.text()
        async with http.patch(f"{base}/{channel['id']}", json={"notify_ended": "all"}) as answer:
            assert (await answer.json())["notify_ended"] == "all"
        await run(scene, "[[n=2]]", "after")
    assert orjson.loads((await scene.receiver.next())[1])["title"] == "Done: after"


async def test_without_a_channel_nothing_is_left_to_decide(scene: Scene) -> None:
    await run(scene, "[[n=2]]")
    await eventually_noticed(scene)
    await webhook(scene)
    await run(scene, "[[n=2]]", "first with a channel")
    message = orjson.loads((await scene.receiver.next())[1])
    assert message["title"] == "Done: first with a channel"
