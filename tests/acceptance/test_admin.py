"""The admin on a real server, by hand: log in, look, cancel, release."""

import asyncio
import re
from collections.abc import Callable
from urllib.parse import urlencode

import aiohttp

from tests.acceptance.conftest import MakeProject
from tests.acceptance.conversation import CANCELLED_PAIR, SLOW, roles_and_finishes, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
PASSWORD = "blue-kettle-7"


class Pages:
    """A browser without a screen."""

    def __init__(self, url: str, browser: aiohttp.ClientSession) -> None:
        self._url = url
        self._browser = browser

    async def get(self, path: str, *, expect: int = 200) -> str:
        async with self._browser.get(self._url + path) as answer:
            assert answer.status == expect, path
            return await answer.text()

    async def submit(self, path: str, **fields: str) -> str:
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', await self.get(path))
        assert token is not None
        body = urlencode({**fields, "csrfmiddlewaretoken": token[1]})
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self._url}
        async with self._browser.post(self._url + path, data=body, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.text()


async def test_work_is_cancelled_and_its_workspace_released_from_the_admin(
    server: Server, project: MakeProject, connect: Connect
) -> None:
    account = ["createsuperuser", "--noinput", "--username", "boss", "--email", "b@example.org"]
    env = {**server.env, "DJANGO_SUPERUSER_PASSWORD": PASSWORD}
    made = await asyncio.to_thread(command, env, *account)
    assert made.code == 0, made.err
    seat = await take_seat(connect(server), project(), env=["TOKEN=very-secret-word"])
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, SLOW)
    await seat.stream.words(session, 3)
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        pages = Pages(server.url, browser)
        await pages.submit("/admin/login/?next=/admin/", username="boss", password=PASSWORD)
        style = re.search(r'href="(/static/admin/css/base\.\w*\.?css)"', await pages.get("/admin/"))
        assert style is not None
        await pages.get(style[1])
        workspace = await pages.get(f"/admin/workspaces/workspace/{seat.workspace.id}/change/")
        assert "very-secret-word" not in workspace
        page = await pages.submit(
            "/admin/workspaces/session/", action="cancel", _selected_action=session
        )
        assert "1 prompt cancelled" in page
        complete = await seat.stream.run_complete(session)
        assert complete["cancelled"]
        assert seat.stream.errors() == []
        assert roles_and_finishes(await seat.workspace.messages(session)) == CANCELLED_PAIR
        page = await pages.submit(
            "/admin/workspaces/workspace/", action="release", _selected_action=seat.workspace.id
        )
        assert "released from 1 client, closed" in page
    await seat.stream.wait_end()
    await seat.workspace.get(expect=404)
