"""Makes the gallery: three folders with sessions in every state, and a month of usage."""

from __future__ import annotations

import asyncio
import io
import json
import random
import sqlite3
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.acceptance.calling import permission_request
from tests.acceptance.console.gallery import stories
from tests.acceptance.console.transcripts import Transcript, part
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server
from tests.acceptance.harness.stream import Event
from tests.doubles.written_replies import WrittenReplies

DAY = 86_400
MODELS = {"example-large": (3.0, 15.0), "example-small": (0.4, 1.6)}
READ_ONLY = ["view", "grep", "multiedit", "bash"]


@dataclass
class World:
    """The addresses of what was made."""

    workspaces: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)

    def workspace(self, name: str) -> str:
        return f"/w/{self.workspaces[name]}"

    def session(self, name: str) -> str:
        return self.sessions[name]


def configuration(base_url: str, name: str) -> dict[str, Any]:
    models = [
        {
            "id": model,
            "name": model.replace("-", " ").capitalize(),
            "context_window": 200_000,
            "default_max_tokens": 8_000,
            "cost_per_1m_in": costs[0],
            "cost_per_1m_out": costs[1],
        }
        for model, costs in MODELS.items()
    ]
    large, small = ({"provider": "example", "model": model} for model in MODELS)
    return {
        "providers": {
            "example": {
                "name": "Example",
                "type": "openai-compat",
                "base_url": base_url,
                "api_key": "sk-example",
                "models": models,
            }
        },
        "models": {"large": large, "small": small},
        "permissions": {"allowed_tools": READ_ONLY if name == "shop-api" else ["view"]},
    }


def make_folder(folder: Path, name: str, base_url: str) -> Path:
    """A repository with one commit, on a branch of its own."""
    folder.mkdir(parents=True)
    for file, text in stories.FOLDERS[name].items():
        (folder / file).write_text(text)
    (folder / ".gitignore").write_text("__pycache__\n.pytest_cache\ncrush.json\n")
    (folder / "crush.json").write_text(json.dumps(configuration(base_url, name), indent=2))
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    for arguments in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        (*who, "commit", "-q", "-m", "Begin."),
    ):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    return folder


@asynccontextmanager
async def furnished(server: Server, folder: Path) -> AsyncIterator[World]:
    """The world, as long as its model runs."""
    async with WrittenReplies(stories.STORIES) as model, Client(server.url) as client:
        yield await _make(server, client, folder, model.base_url)


async def _make(server: Server, client: Client, folder: Path, base_url: str) -> World:
    world = World()
    seats: dict[str, Seat] = {}
    for name in stories.FOLDERS:
        seats[name] = await take_seat(client, make_folder(folder / name, name, base_url))
        world.workspaces[name] = seats[name].workspace.id

    async def started(name: str, at: str, title: str = "") -> str:
        session = await seats[at].workspace.session(title)
        world.sessions[name] = f"{world.workspace(at)}/s/{session}"
        return session

    async def prompted(name: str, at: str, text: str, title: str = "") -> str:
        seat = seats[at]
        session = await started(name, at, title)
        await seat.workspace.prompt(session, text)
        return session

    async def done(name: str, at: str, text: str) -> None:
        session = await prompted(name, at, text)
        await seats[at].stream.run_complete(session)

    world.sessions["tools"] = await _import_every_tool(client, seats["handbook"])
    await done("translated", "handbook", stories.OLD)
    failed = await prompted("failed", "handbook", stories.LINKS, "Check the handbook's links")
    await seats["handbook"].stream.run_complete(failed)
    await done("explained", "shop-api", stories.EXPLAIN)
    await done("rounded", "shop-api", stories.ROUND)
    await permission_request(
        seats["shop-web"], await prompted("waiting", "shop-web", stories.PURGE_NOW)
    )
    asking = await prompted("asking", "handbook", stories.MOVE)
    await seats["handbook"].stream.wait_for(
        lambda event: event.type == "question_batch_request" and event.session == asking
    )
    working = await prompted("working", "shop-web", stories.PUBLISH)

    def is_writing(event: Event) -> bool:
        return event.session == working and event.text.endswith("each of them")

    await seats["shop-web"].stream.wait_for(is_writing)
    await started("empty", "shop-web")
    await asyncio.to_thread(_spend, server, world)
    return world


def _spend(server: Server, world: World) -> None:
    """Usage of the last month, on working days."""
    chance = random.Random(3)
    now = int(time.time())
    rows = []
    for days in range(1, 30):
        at = now - days * DAY
        if time.gmtime(at).tm_wday > 4:  # a weekend
            continue
        for model, (price_in, price_out) in MODELS.items():
            for workspace in world.workspaces.values():
                tokens, out = chance.randrange(40_000, 900_000), chance.randrange(2_000, 40_000)
                cost = (tokens * price_in + out * price_out) / 1_000_000
                used = (tokens, out, int(tokens * 0.7), 0, cost)
                rows.append((workspace, "s", "owner", "reply", "example", model, *used, at * 1000))
    with sqlite3.connect(server.data_dir / "server.sqlite3", timeout=30) as database:
        database.executemany(
            "INSERT INTO agents_usageentry (workspace_id, session_id, user_name, kind, provider, model,"
            " prompt_tokens, completion_tokens, cache_read_tokens, cache_write_tokens, cost, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
    database.close()


CALLS: tuple[tuple[str, dict[str, Any], str, dict[str, Any]], ...] = (
    ("ls", {"path": "."}, "- ./\n  - README.md\n  - pages/", {}),
    ("glob", {"pattern": "**/*.md"}, "README.md\npages/leave.md", {}),
    (
        "grep",
        {"pattern": "holiday"},
        "Found 1 match\npages/leave.md:\n  Line 3: Plan a holiday early.",
        {},
    ),
    (
        "view",
        {"file_path": "README.md"},
        "<file>\n     1|# Handbook\n</file>",
        {"content": "# Handbook\n\nHow we work, and why.\n", "file_path": "README.md"},
    ),
    (
        "write",
        {"file_path": "pages/tea.md", "content": "# Tea\n\nAt four.\n"},
        "File written",
        {"old_content": "", "new_content": "# Tea\n\nAt four.\n", "additions": 3, "removals": 0},
    ),
    (
        "edit",
        {"file_path": "pages/tea.md", "old_string": "four", "new_string": "five"},
        "File edited",
        {"old_content": "At four.\n", "new_content": "At five.\n", "additions": 1, "removals": 1},
    ),
    (
        "bash",
        {"command": "wc -w pages/*.md", "description": "Count words"},
        "  310 pages/tea.md\n",
        {},
    ),
    ("fetch", {"url": "https://example.org", "format": "markdown"}, "# Example\n\nA page.", {}),
    (
        "web_search",
        {"query": "static site generators"},
        "1. A list of generators\n   https://example.org/list\n   Many of them, compared.",
        {},
    ),
    (
        "todos",
        {
            "todos": [
                {"content": "Read the pages", "status": "completed", "active_form": "Reading"},
                {"content": "Move them", "status": "in_progress", "active_form": "Moving them"},
                {"content": "Check links", "status": "pending", "active_form": "Checking links"},
            ]
        },
        "Todos updated",
        {},
    ),
    ("lsp_diagnostics", {"file_path": "README.md"}, "No problems.", {}),
    ("mcp_calendar_add_event", {"title": "Tea", "at": "16:00"}, "Added.", {}),
)


async def _import_every_tool(client: Client, seat: Seat) -> str:
    made = Transcript("A call of each tool")
    made.add("user", part("text", text="Show what you can do."))
    for name, arguments, content, metadata in CALLS:
        made.call(name, arguments, content, metadata=metadata)
    made.call("bash", {"command": "make site"}, "make: *** No rule to make target.", is_error=True)
    made.add(
        "assistant",
        part("reasoning", thinking="That is **all** of them.", signature=""),
        part(
            "text",
            text="## Done\n\n- [x] tools\n- [ ] tea\n\n> Well done.\n\n```js\nlet tea = 4;\n```\n\nThat was all.",
        ),
    )
    session = await client.http.call(
        "POST",
        f"/api/workspaces/{seat.workspace.id}/sessions/import",
        io.BytesIO(made.lines().encode()),
        expect=201,
        headers={"Content-Type": "application/x-ndjson"},
    )
    return f"/w/{seat.workspace.id}/s/{session['id']}"
