"""A process that freezes inside a transaction holds up its workspace for seconds, and no other."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from crushsite.env import database
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.serve.starting import Connect, MakeProject, MakeServer

LIMIT_SECONDS = 5.0
SETTING = "idle_in_transaction_session_timeout"


@contextmanager
def frozen_transaction(
    server: Server, workspace_id: str, **parameters: str
) -> Iterator[psycopg.Connection]:
    """A connection as our processes make it, which locks the workspace and falls silent."""
    url = server.env["DATABASE_URL"]
    options: dict[str, Any] = database(url, folder=server.folder)["OPTIONS"]
    session = "".join(f" -c {name}={value}" for name, value in parameters.items())
    plain = urlunsplit(urlsplit(url)._replace(query=""))
    with psycopg.connect(plain, **{**options, "options": options["options"] + session}) as frozen:
        frozen.execute(
            "SELECT 1 FROM workspaces_workspace WHERE id = %s FOR UPDATE", [workspace_id]
        )
        yield frozen
        frozen.close()


async def longest_accept(seats: list[Seat], sessions: list[str], *, seconds: float) -> float:
    """Prompts all of them again and again; the longest wait for a 202."""

    async def prompt_on(seat: Seat, session: str) -> float:
        longest, ends_at = 0.0, time.monotonic() + seconds
        while time.monotonic() < ends_at:
            began = time.monotonic()
            await seat.workspace.prompt(session, "[[n=1]]")
            longest = max(longest, time.monotonic() - began)
            await asyncio.sleep(0.1)
        return longest

    pairs = zip(seats, sessions, strict=True)
    return max(await asyncio.gather(*(prompt_on(seat, session) for seat, session in pairs)))


async def test_the_frozen_transaction_ends_and_no_client_waits_longer_than_five_seconds(
    make_a_server: MakeServer, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(Shape.SCALED, workers=2)
    await asyncio.to_thread(server.start)
    client = connect(server)
    seats = [await take_seat(client, project(f"p{n}")) for n in range(4)]
    sessions = [await seat.workspace.session() for seat in seats]
    running = await seats[0].workspace.session()
    await seats[0].workspace.prompt(running, "[[n=200 d=20]]", "streams")
    await seats[0].stream.words(running, 3)
    with frozen_transaction(server, seats[0].workspace.id) as frozen:
        assert frozen.execute(f"SHOW {SETTING}").fetchone() == ("3s",)
    # One of three seconds leaves a busy machine too little of the five.
    with frozen_transaction(server, seats[0].workspace.id, **{SETTING: "1s"}):
        frozen_accept, others = await asyncio.gather(
            longest_accept(seats[:1], sessions[:1], seconds=5),
            longest_accept(seats[1:], sessions[1:], seconds=5),
        )
    assert frozen_accept < LIMIT_SECONDS, frozen_accept
    assert others < LIMIT_SECONDS, others
    complete = await seats[0].stream.run_complete(running, "streams")
    assert "error" not in complete, complete
    for seat, session in zip(seats, sessions, strict=True):
        await _until_idle(seat, session)


async def test_a_row_that_stays_locked_delays_no_other_workspace(
    make_a_server: MakeServer, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(Shape.SCALED)
    await asyncio.to_thread(server.start)
    client = connect(server)
    seats = [await take_seat(client, project(f"p{n}")) for n in range(3)]
    sessions = [await seat.workspace.session() for seat in seats]
    running = await seats[0].workspace.session()
    await seats[0].workspace.prompt(running, "[[n=50 d=20]]", "streams")
    await seats[0].stream.words(running, 3)
    patient = {SETTING: "60s"}
    with frozen_transaction(server, seats[0].workspace.id, **patient):
        refused = asyncio.create_task(_refusal(seats[0], sessions[0]))
        others = await longest_accept(seats[1:], sessions[1:], seconds=7)
        assert others < LIMIT_SECONDS, others
        status, retry_after, message, seconds = await refused
        assert (status, retry_after) == (503, "2")
        assert message.startswith("Another process holds the rows")
        assert seconds < LIMIT_SECONDS * 4  # its patience is five
    # The run waited with what it had to write, and nothing of it is lost.
    complete = await seats[0].stream.run_complete(running, "streams")
    assert "error" not in complete, complete
    assert len(complete["text"].split()) == 50


async def _refusal(seat: Seat, session: str) -> tuple[int, str | None, str, float]:
    http = seat.workspace.client.http
    began = time.monotonic()
    async with http.session.post(
        f"{http.url}/v1/workspaces/{seat.workspace.id}/agent",
        json={"session_id": session, "prompt": "[[n=1]]"},
    ) as answer:
        body = await answer.json(content_type=None)
        seconds = time.monotonic() - began
        return answer.status, answer.headers.get("Retry-After"), body["message"], seconds


async def _until_idle(seat: Seat, session: str) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                if not (await seat.workspace.agent())["is_busy"]:
                    return
            except UnexpectedStatus as error:
                assert error.status == 503, error  # noqa: PT017
            await asyncio.sleep(0.05)
