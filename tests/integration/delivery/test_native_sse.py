import asyncio
import json

import pytest

from tests.integration.delivery.conftest import CLIENT, Site
from tests.integration.delivery.reading import (
    narrow_socket,
    next_frame,
    numbers_in,
    read_all,
)
from workspaces.actions.sessions import create_session


def number_of(frame: str) -> int:
    return int(frame.partition("id: ")[2].partition("\n")[0])


async def test_it_says_when_to_come_back_and_that_it_is_live(site: Site) -> None:
    async with site.session.get(site.native()) as answer:
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/event-stream"
        assert await next_frame(answer) == "retry: 1000\n"
        opened = await next_frame(answer)
        assert "event: stream.opened" in opened
        number = await site.tell()
        assert number_of(await next_frame(answer)) == number == number_of(opened) + 1


async def test_it_replays_from_the_cursor_of_the_query(site: Site) -> None:
    first = await site.tell()
    await site.tell()
    async with site.session.get(site.native(f"after={first}")) as answer:
        await next_frame(answer)
        assert number_of(await next_frame(answer)) == first + 1


async def test_the_header_of_a_reconnecting_browser_wins(site: Site) -> None:
    first = await site.tell()
    await site.tell()
    headers = {"Last-Event-ID": str(first)}
    async with site.session.get(site.native("after=0"), headers=headers) as answer:
        await next_frame(answer)
        assert number_of(await next_frame(answer)) == first + 1


@pytest.mark.parametrize("cursor", ["", "-1", "x", "1.5", "٣", "9" * 19, "9" * 5000])
async def test_it_refuses_what_is_no_cursor(site: Site, cursor: str) -> None:
    async with site.session.get(site.native(), params={"after": cursor}) as answer:
        assert answer.status == 400
        assert (await answer.json())["message"].startswith("after: ")


async def test_it_refuses_a_bad_header(site: Site) -> None:
    async with site.session.get(site.native(), headers={"Last-Event-ID": "x"}) as answer:
        assert answer.status == 400
        assert (await answer.json())["message"].startswith("Last-Event-ID: ")


async def test_it_refuses_a_cursor_ahead_of_the_log(site: Site) -> None:
    async with site.session.get(site.native("after=1000000")) as answer:
        assert answer.status == 409


async def test_it_knows_no_workspace_that_is_not_there(site: Site) -> None:
    async with site.session.get(site.native().replace(site.workspace_id, "nowhere")) as answer:
        refusal = {"message": "workspace not found", "code": "workspace_unknown"}
        assert (answer.status, await answer.json()) == (404, refusal)


async def test_a_reader_without_a_client_id_holds_nothing(site: Site) -> None:
    async with site.session.get(site.native()):
        assert await site.claims() == {}


async def test_a_client_is_attached_while_it_reads(site: Site) -> None:
    async with site.session.get(site.native(f"client_id={CLIENT}")):
        assert await site.claims() == {CLIENT: True}
    await asyncio.wait_for(site.detached.get(), 60)
    assert await site.claims() == {CLIENT: False}


async def test_it_refuses_a_bad_client_id(site: Site) -> None:
    async with site.session.get(site.native("client_id=x")) as answer:
        assert answer.status == 400


async def test_a_slow_reader_is_told_to_resume_and_misses_nothing(site: Site) -> None:
    client = narrow_socket(site.port)
    with client:
        path = site.native().partition(str(site.port))[2]
        request = f"GET {path} HTTP/1.0\r\n\r\n".encode()
        await asyncio.get_running_loop().sock_sendall(client, request)
        while not site.hub._rooms or not site.hub._rooms[site.workspace_id].native.readers:
            await asyncio.sleep(0.01)
        (reader,) = site.hub._rooms[site.workspace_id].native.readers
        while not reader.overflowed:
            last = await site.tell(size=100_000)
        body = await read_all(client)
    numbers = numbers_in(body)
    assert b"event: stream.resume" in body
    resume = json.loads(body.rpartition(b"data: ")[2])["data"]["after"]
    assert numbers == list(range(numbers[0], resume + 1))
    async with site.session.get(site.native(f"after={resume}"), read_bufsize=4_000_000) as answer:
        await next_frame(answer)
        rest = [number_of(await next_frame(answer)) for _ in range(resume + 1, last + 1)]
    assert rest == list(range(resume + 1, last + 1))


async def test_readers_that_split_at_other_line_breaks_get_whole_events(site: Site) -> None:
    title = "one\u2028two\u2029three\x85four"
    async with site.session.get(site.native()) as answer:
        await site.write(create_session, title=title)
        body = ""
        async with asyncio.timeout(60):
            while "three" not in body or not body.endswith("\n\n"):
                body += (await answer.content.readany()).decode()
    assert body.splitlines() == body[:-1].split("\n")
    assert title in [
        json.loads(line[6:])["data"].get("session", {}).get("title")
        for line in body.splitlines()
        if line.startswith("data: ")
    ]
