"""A request that waits too long: messages on every channel, and their links, with a real server."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import aiohttp
import orjson
import pytest_asyncio

from tests.acceptance.calling import bash, call, permission_request, results
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.native import NativeSocket
from tests.acceptance.harness.shapes import Server
from tests.acceptance.notifications.conftest import Scene
from tests.acceptance.notifications.receivers import PushedBrowser, is_signed


class Visitor:
    """A browser without an account that has got a link."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.http = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))

    def _here(self, link: str) -> str:
        return self._server.url + "/answer/" + link.partition("/answer/")[2]

    async def open(self, link: str) -> tuple[int, str]:
        headers = {"Sec-Fetch-Site": "none"}
        async with self.http.get(self._here(link), headers=headers) as answer:
            return answer.status, await answer.text()

    async def submit(self, link: str, **fields: str) -> tuple[int, str]:
        _, page = await self.open(link)
        token = re.findall('name="csrfmiddlewaretoken" value="([^"]+)"', page)
        fields = {"csrfmiddlewaretoken": token[0] if token else "", **fields}
        headers = {"Origin": self._server.url, "Sec-Fetch-Site": "same-origin"}
        async with self.http.post(self._here(link), data=fields, headers=headers) as answer:
            return answer.status, await answer.text()


@pytest_asyncio.fixture
async def visitor(scene: Scene) -> AsyncIterator[Visitor]:
    visitor = Visitor(scene.server)
    yield visitor
    await visitor.http.close()


async def test_a_webhook_and_its_link(scene: Scene, visitor: Visitor) -> None:
    made = await scene.channel(kind="webhook", url=scene.receiver.url, notify_ended="none")
    await scene.notify_after(1)
    scene.receiver.statuses = []
    session, request = await scene.waiting_call()
    headers, body = await scene.receiver.next()
    assert is_signed(headers, body, made["secret"])
    message = orjson.loads(body)
    assert message["type"] == "permission.overdue"
    assert message["request"]["id"] == request["id"]
    assert message["session"]["id"] == session
    assert b"SECRET-ARGUMENT" not in body
    link = message["link"]
    for _ in range(2):  # a scanner opens it before the person does
        status, page = await visitor.open(link)
        assert status == 200
        assert "SECRET-ARGUMENT" in page  # the person sees what the call would do
    status, page = await visitor.submit(link, answer="allow", reason="go on")
    assert (status, "Allowed by owner" in page) == (200, True)
    await scene.seat.stream.run_complete(session)
    assert (scene.seat.workspace.path / "SECRET-ARGUMENT.txt").exists()
    assert (await visitor.open(link))[0] == 410
    assert (await visitor.submit(link, answer="deny"))[0] in {403, 410}
    log = scene.server.log_text()
    assert link.partition("key=")[2] not in log
    assert made["secret"] not in log


async def test_a_mail_and_a_push_message(scene: Scene, visitor: Visitor) -> None:
    me = await scene.call("GET", "/api/me")
    await scene.call("PATCH", f"/api/users/{me['user_id']}", {"email": "owner@example.com"})
    key = (await scene.call("GET", "/api/notifications/push-key"))["public_key"]
    assert len(key) == 87
    browser = PushedBrowser(scene.receiver.url)
    await scene.channel(kind="email", notify_ended="none")
    await scene.channel(kind="web_push", notify_ended="none", **browser.subscription)
    await scene.notify_after(1)
    session, _ = await scene.waiting_call()
    to, mail = await scene.mails.next()
    assert to == ["owner@example.com"]
    assert mail["Subject"].startswith("bash: execute waits for you")
    text = mail.get_payload(decode=True).decode()
    headers, body = await scene.receiver.next()
    assert headers["content-encoding"] == "aes128gcm"
    assert f"k={key}" in headers["authorization"]
    pushed = browser.decrypt(body)
    assert pushed["session_id"] == session
    # One answer counts; the other link shows who gave it.
    status, page = await visitor.submit(pushed["link"], answer="deny", reason="not now")
    assert (status, "Denied by owner" in page) == (200, True)
    link = re.search(r"http\S+/answer/\S+", text)
    assert link is not None
    status, page = await visitor.open(link[0])
    assert (status, "Denied by owner" in page) == (200, True)
    await scene.seat.stream.run_complete(session)


async def test_questions_are_answered_by_a_link(scene: Scene, visitor: Visitor) -> None:
    await scene.channel(kind="webhook", url=scene.receiver.url, notify_ended="none")
    await scene.notify_after(1)
    choices = [{"id": "a", "label": "SQLite"}, {"id": "b", "label": "PostgreSQL"}]
    questions = [
        {"type": "single_choice", "question": "Which database?", "choices": choices},
        {"type": "yes_no", "question": "Delete the old one?"},
        {"type": "free_text", "question": "Its name?"},
    ]
    session = await scene.seat.workspace.session()
    await scene.seat.workspace.prompt(session, call("question", questions=questions))
    message = orjson.loads((await scene.receiver.next())[1])
    assert message["type"] == "question.overdue"
    assert message["request"]["summary"] == "3 questions"
    _, page = await visitor.open(message["link"])
    names = list(dict.fromkeys(re.findall('name="(?:choice|text) ([^"]+)"', page)))
    one, two, three = names
    status, page = await visitor.submit(message["link"], **{f"choice {one}": "b"})
    assert (status, "Answer every question." in page) == (400, True)
    answers = {f"choice {one}": "b", f"choice {two}": "no", f"text {three}": "main <db>"}
    status, page = await visitor.submit(message["link"], **answers)
    assert (status, "Answered by owner" in page) == (200, True)
    await scene.seat.stream.run_complete(session)
    result = results(await scene.seat.workspace.messages(session))[-1]["content"]
    assert 'User selected: ["b"]' in result
    assert "main <db>" in result


async def test_no_message_to_someone_who_is_looking(scene: Scene) -> None:
    """A channel's test message, sent later, arrives first: none was sent before it."""
    made = await scene.channel(kind="webhook", url=scene.receiver.url, notify_ended="none")
    await scene.notify_after(1)
    session = await scene.seat.workspace.session()
    start = scene.seat.stream.mark()
    await scene.seat.workspace.set_current(session)
    await scene.seat.workspace.prompt(session, bash("touch a.txt"))
    await permission_request(scene.seat, session, start=start)
    socket = await NativeSocket(
        scene.seat.workspace.client.http, scene.seat.workspace.id, after=0
    ).open()
    await socket.wait_for(lambda got: got.type == "permission.overdue")
    await socket.close()
    await scene.call("POST", f"/api/notifications/channels/{made['id']}/test")
    _, body = await scene.receiver.next()
    assert orjson.loads(body)["type"] == "test"


async def test_a_tool_gets_no_link(scene: Scene) -> None:
    """A tool of the server may neither create a channel nor use a link that it has found."""
    await scene.channel(kind="webhook", url=scene.receiver.url, notify_ended="none")
    await scene.notify_after(1)
    session, request = await scene.waiting_call()
    link = orjson.loads((await scene.receiver.next())[1])["link"]
    await scene.seat.workspace.grant(request, "deny")
    await scene.seat.stream.run_complete(session)
    second, request = await scene.waiting_call()
    link = orjson.loads((await scene.receiver.next())[1])["link"]
    jar = scene.seat.workspace.path / "jar"
    script = (
        f"curl -s -c {jar} '{link}' -o page.html; "
        't=$(sed -n \'s/.*csrfmiddlewaretoken" value="\\([^"]*\\).*/\\1/p\' page.html); '
        f"curl -s -b {jar} -H 'Origin: {scene.server.url}' -o /dev/null -w '%{{http_code}} '"
        f" --data-urlencode csrfmiddlewaretoken=$t -d answer=allow '{link}'; "
        f"curl -s -o /dev/null -w '%{{http_code}}' {scene.server.url}/api/notifications/channels"
        """ -d '{"kind": "webhook", "url": "https://example.com/"}'"""
    )
    other = await scene.seat.workspace.session()
    start = scene.seat.stream.mark()
    await scene.seat.workspace.prompt(other, bash(script))
    grant = await permission_request(scene.seat, other, start=start)
    await scene.seat.workspace.grant(grant)
    await scene.seat.stream.run_complete(other, start=start)
    page = str(await scene.seat.workspace.messages(other))
    assert "403 403" in page, page
    assert (await scene.call("GET", "/api/approvals?state=pending"))["items"]
    await scene.seat.workspace.grant(request, "deny")
    await scene.seat.stream.run_complete(second)


async def test_a_message_survives_a_kill_of_the_server(scene: Scene) -> None:
    made = await scene.channel(kind="webhook", url=scene.receiver.url, notify_ended="none")
    await scene.notify_after(1)
    scene.receiver.statuses = [500]
    _, request = await scene.waiting_call()
    first, _ = await scene.receiver.next()
    scene.server.kill9()
    scene.server.start()
    second, body = await scene.receiver.next()
    assert second["webhook-id"] == first["webhook-id"]
    assert is_signed(second, body, made["secret"])
    assert orjson.loads(body)["request"]["id"] == request["id"]


async def test_nobody_else_sees_a_channel(scene: Scene) -> None:
    made = await scene.channel(kind="webhook", url=scene.receiver.url, notify_ended="none")
    done = command(scene.server.env, "user", "add", "ann", "--no-password")
    assert done.code == 0, done
    token = command(scene.server.env, "token", "create", "t", "--user", "ann").out.strip()
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http:
        base = f"{scene.server.url}/api/notifications/channels"
        async with http.get(base) as answer:
            assert (await answer.json())["items"] == []
        async with http.delete(f"{base}/{made['id']}") as answer:
            assert answer.status == 404
