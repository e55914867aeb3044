"""A printed link signs a browser in, once; the session then works for pages, API and sockets."""

import asyncio
import re
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie

import aiohttp
import pytest
import pytest_asyncio

from tests.acceptance.harness.commands import command
from tests.acceptance.harness.shapes import Server

LINK = re.compile(r"http://localhost:(\d+)(/sign-in/link/\?key=[\w-]{43})")


async def a_link(server: Server, *arguments: str) -> str:
    done = await asyncio.to_thread(command, server.env, "login-link", *arguments)
    assert done.code == 0, done
    match = LINK.fullmatch(done.out.strip())
    assert match is not None, done.out
    assert int(match[1]) == server.port
    return server.url + match[2]


class Browser:
    """What a browser sends of itself, and its cookies."""

    def __init__(self, server: Server) -> None:
        self.origin = server.url
        self.http = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))

    async def get(self, url: str) -> tuple[int, str]:
        site = {"Sec-Fetch-Site": "same-origin"}
        async with self.http.get(url, headers=site, allow_redirects=False) as answer:
            return answer.status, await answer.text()

    async def form(self, url: str) -> dict[str, str]:
        """The fields of the page's form."""
        _, page = await self.get(url)
        return dict(re.findall('name="(csrfmiddlewaretoken)" value="([^"]+)"', page))

    async def submit(self, url: str, form: dict[str, str] | None = None) -> aiohttp.ClientResponse:
        fields = await self.form(url) if form is None else form
        headers = {"Origin": self.origin, "Sec-Fetch-Site": "same-origin", "Referer": url}
        return await self.http.post(url, data=fields, headers=headers, allow_redirects=False)


@pytest_asyncio.fixture
async def browser(shared_server: Server) -> AsyncIterator[Browser]:
    browser = Browser(shared_server)
    yield browser
    await browser.http.close()


async def test_the_link_signs_the_owner_in_once(shared_server: Server, browser: Browser) -> None:
    link, api = await a_link(shared_server), f"{shared_server.url}/v1/workspaces"
    assert (await browser.get(api))[0] == 401
    for _ in range(2):  # looking at it uses nothing up
        status, page = await browser.get(link)
        assert (status, "works once" in page) == (200, True)
    late = Browser(shared_server)
    form = await late.form(link)
    answer = await browser.submit(link)
    assert answer.status == 303
    assert "link" not in answer.headers["Location"]
    cookie = SimpleCookie(answer.headers.getall("Set-Cookie")[-1])["crush_sessionid"]
    assert (cookie["httponly"], cookie["samesite"]) == (True, "Strict")
    assert (await browser.get(api))[0] == 200
    assert (await browser.get(f"{shared_server.url}/admin/"))[0] == 200
    try:
        assert (await late.get(link))[0] == 410
        assert (await late.submit(link, form)).status == 410
        assert (await late.get(api))[0] == 401
    finally:
        await late.http.close()
    assert link.rpartition("=")[2] not in shared_server.log_text()


async def test_a_form_of_another_site_uses_nothing_up(
    shared_server: Server, browser: Browser
) -> None:
    link = await a_link(shared_server)
    async with browser.http.post(link, data={}) as answer:  # without the page's token
        assert answer.status == 403
    async with browser.http.post(link, headers={"Origin": "https://evil.example"}) as answer:
        assert answer.status == 403
    assert (await browser.get(link))[0] == 200


async def test_a_link_signs_in_the_user_that_it_is_for(
    shared_server: Server, browser: Browser
) -> None:
    name = f"ann-{shared_server.port}"
    env = shared_server.env
    await asyncio.to_thread(command, env, "user", "add", name, "--no-password")
    answer = await browser.submit(await a_link(shared_server, "--user", name))
    assert answer.status == 303
    status, body = await browser.get(f"{shared_server.url}/v1/workspaces")
    assert (status, body) == (200, "[]")
    assert (await browser.get(f"{shared_server.url}/admin/"))[0] == 302
    done = await asyncio.to_thread(command, env, "login-link", "--user", "nobody-here")
    assert done.code == 1
    assert "There is no user" in done.err


async def test_the_embedded_server_prints_a_link(embedded_server: Server) -> None:
    (process,) = embedded_server.processes()
    process.wait_for_line("To sign in, open", 60)
    found = re.search(LINK, process.log_text())
    assert found is not None
    browser = Browser(embedded_server)
    try:
        assert (await browser.submit(embedded_server.url + found[2])).status == 303
    finally:
        await browser.http.close()


@pytest.mark.parametrize("secret", ["x", "é", "a" * 300, "%00", "..%2f"])
async def test_a_wrong_link_has_ended(browser: Browser, shared_server: Server, secret: str) -> None:
    status, page = await browser.get(f"{shared_server.url}/sign-in/link/?key={secret}")
    assert status in {404, 410}
    assert "Traceback" not in page


async def test_no_page_of_another_site_can_use_the_cookie(
    shared_server: Server, browser: Browser
) -> None:
    """Not even one of another port, to which a browser would send the cookie."""
    await browser.submit(await a_link(shared_server))
    address, body = f"{shared_server.url}/api/tokens", {"name": "made by a page"}
    other_port = shared_server.url.replace(str(shared_server.port), "9")
    refused: list[dict[str, str]] = [
        *({"Origin": origin} for origin in ("https://evil.example", other_port, "null")),
        *({"Sec-Fetch-Site": site} for site in ("cross-site", "same-site")),
    ]
    for headers in refused:
        async with browser.http.post(address, json=body, headers=headers) as answer:
            assert answer.status == 403, headers
    async with browser.http.get(address) as answer:
        names = [token["name"] for token in (await answer.json())["items"]]
    assert "made by a page" not in names
    # A program that has the cookie, and the console itself.
    for headers in ({}, {"Origin": shared_server.url, "Sec-Fetch-Site": "same-origin"}):
        async with browser.http.post(address, json=body, headers=headers) as answer:
            assert answer.status == 201, await answer.text()
