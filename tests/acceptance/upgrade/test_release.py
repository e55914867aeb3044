"""The database of the release before accounts: nothing in it is lost, and its waiting work goes on.

`before_accounts.sql` is what that release had stored when it was killed, with a run that waits for
a permission and a prompt behind it; `before_accounts.json` is what its clients read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from tests.acceptance.conversation import take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server, Shape

Connect = Callable[[Server], Client]
FOLDER = Path(__file__).parent
# Of each session, the facts that a server may change while it starts.
CHANGING = {"is_busy", "attached_clients", "updated_at"}


def stored(name: str, *, path: Path, model: ScriptedModel) -> str:
    """Returns a recording with the folder and the model of this test."""
    text = (FOLDER / name).read_text()
    recorded = orjson.loads((FOLDER / "before_accounts.json").read_bytes())
    return text.replace(recorded["path"], str(path)).replace(recorded["model"], model.base_url)


def unchanged(session: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in session.items() if name not in CHANGING}


async def test_the_database_of_the_last_release_is_kept(
    make_a_server: Any, connect: Connect, project: Callable[..., Path], model: ScriptedModel
) -> None:
    path = project("upgraded")
    server = make_a_server(Shape.EMBEDDED, env={})
    data = server.data_dir
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    with sqlite3.connect(data / "server.sqlite3") as database:
        database.executescript(stored("before_accounts.sql", path=path, model=model))
    database.close()
    before = orjson.loads(stored("before_accounts.json", path=path, model=model))
    server.start()
    seat = await take_seat(connect(server), path)
    assert seat.workspace.id == before["workspace"]

    sessions = await seat.workspace.sessions()
    assert {s["id"]: unchanged(s) for s in sessions} == {
        s["id"]: unchanged(s) for s in before["sessions"]
    }
    for session_id, messages in before["messages"].items():
        found = await seat.workspace.messages(session_id)
        assert found[: len(messages)] == messages
        assert await seat.workspace.history(session_id) == before["history"][session_id]

    # The run that waited still does, and the prompt behind it is its session's next.
    waiting = before["waiting"]
    assert await seat.workspace.queue(waiting) == before["queued"]
    assert await seat.workspace.grant(before["request"]) is True
    await seat.stream.run_complete(waiting, run_id="run-queued")
    assert (path / "waited.txt").exists()

    # What is new counts what was there.
    address = f"{server.url}/api/workspaces/{seat.workspace.id}"
    async with aiohttp.ClientSession() as http:

        async def get(url: str) -> Any:
            async with http.get(url) as answer:
                assert answer.status == 200, await answer.text()
                return await answer.json()

        listed = (await get(f"{address}/sessions?limit=200"))["items"]
        assert {s["id"] for s in listed} <= set(before["messages"]) | {s["id"] for s in sessions}
        grants = (await get(f"{server.url}/api/grants"))["items"]
        assert [(g["scope"], g["tool_name"]) for g in grants] == [("session", "write")]
        hits = await get(f"{server.url}/api/search?q=hello")
        assert hits["items"], "the texts of the last release are searched, too"
