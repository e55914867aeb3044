"""Workspaces under work, and a server that is killed again and again."""

import asyncio
import contextlib
import random
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.acceptance.crash.ground import bash
from tests.acceptance.harness.client import Client, Workspace
from tests.acceptance.harness.shapes import Server
from tests.acceptance.rough_reader import RoughReader

UNFINISHED = 20  # runs that are running, queued or parked when the server is killed
DOWN = (aiohttp.ClientError, ConnectionError, TimeoutError)


@dataclass
class Place:
    """One workspace through all the kills, and what was asked of it."""

    path: Path
    yolo: bool
    client_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    workspace: Workspace | None = None
    reader: RoughReader | None = None  # lives through all the kills, by its cursor
    sessions: list[str] = field(default_factory=list)
    accepted: dict[str, str] = field(default_factory=dict)  # run ids that were answered 202
    unsure: dict[str, tuple[str, str]] = field(default_factory=dict)  # and those that were not
    anonymous: int = 0  # accepted without a run id

    @property
    def marks(self) -> Counter[str]:
        """How often each command was executed."""
        file = self.path / "marks"
        return Counter(file.read_text().split() if file.exists() else [])

    async def open(self, client: Client) -> Workspace:
        self.workspace = await client.workspace(self.path, client_id=self.client_id, yolo=self.yolo)
        if self.reader is None:
            port = int(client.http.url.rpartition(":")[2])
            transport = "ws" if self.yolo else "sse"
            chance = random.Random(self.client_id)
            self.reader = RoughReader(port, self.workspace.id, transport, chance=chance)
        while len(self.sessions) < 6:
            self.sessions.append(await self.workspace.session())
        return self.workspace


class Ordeal:
    """Keeps a server busy, and kills it again and again."""

    def __init__(self, server: Server, chance: random.Random, places: list[Place]) -> None:
        self.server = server
        self.chance = chance
        self.places = places
        self.number = 0
        self.moment = 0.5  # seconds of work, at most, before a kill

    def script(self, place: Place) -> str:
        """A prompt of a random kind."""
        self.number += 1
        tag = f"m{self.number}"
        slow = f"echo {tag} >> marks; sleep 0.{self.chance.randrange(3)}"
        kinds = [
            f"[[n=30 d={self.chance.randrange(1, 20)} id={tag}]]",
            f"[[first=200 n=5 id={tag}]]",
            f"[[tool={bash(slow)}]] [[n=10 d=5]]",
            f"[[tools=3 {bash(slow)}]] [[n=5 before=3]]",
        ]
        if not place.yolo:
            kinds = kinds[2:]
        return self.chance.choice(kinds)

    async def top_up(self) -> None:
        """Accepts prompts until enough is unfinished."""
        for place in self.places:
            assert place.workspace is not None
            for run_id, (session, text) in list(place.unsure.items()):
                await self.prompt(place, session, text, run_id)
            busy = 0
            for session in place.sessions:
                about = await place.workspace.get_session(session)
                busy += about["is_busy"] + await place.workspace.queued(session)
            for _ in range(max(0, UNFINISHED // len(self.places) - busy)):
                run_id = str(uuid.uuid4()) if self.chance.random() < 0.7 else None
                session = self.chance.choice(place.sessions)
                await self.prompt(place, session, self.script(place), run_id)

    async def prompt(self, place: Place, session: str, text: str, run_id: str | None) -> None:
        assert place.workspace is not None
        if run_id is not None:
            place.unsure[run_id] = (session, text)
        await place.workspace.prompt(session, text, run_id)
        if run_id is None:
            place.anonymous += 1
        else:
            place.unsure.pop(run_id)
            place.accepted[run_id] = session

    async def answer_some(self, share: float) -> int:
        """Answers a share of the questions that wait; how many waited."""
        waiting = 0
        for place in self.places:
            assert place.workspace is not None
            assert place.reader is not None
            await place.reader.read_to(0)
            for request in list(place.reader.fold.requests.values()):
                waiting += 1
                if self.chance.random() < share:
                    action = self.chance.choice(["allow", "allow", "allow", "deny"])
                    await place.workspace.grant(request, action)
        return waiting

    async def warm_up(self) -> None:
        """Work without a kill: on a slow machine the kills must not all come before it."""
        began = time.monotonic()
        async with Client(self.server.url) as client:
            for place in self.places:
                await place.open(client)
            await self.top_up()
            await self.answer_some(0.7)
        self.moment = max(self.moment, (time.monotonic() - began) / 2)

    async def round(self, which: Any) -> None:
        """Work for a moment, a kill in the middle of it, and a start."""
        async with Client(self.server.url) as client:
            for place in self.places:
                await place.open(client)
            kill = asyncio.create_task(self._kill(self.chance.random() * self.moment, which))
            with contextlib.suppress(*DOWN):
                await self.top_up()
                await self.answer_some(0.7)
            await kill
        await asyncio.to_thread(self.server.start)

    async def _kill(self, after: float, which: Any) -> None:
        await asyncio.sleep(after)
        await asyncio.to_thread(self.server.kill9, which)

    async def settle(self, client: Client) -> None:
        """Until nothing is left to do; every question is answered."""
        async with asyncio.timeout(240):
            for place in self.places:
                await place.open(client)
                for run_id, (session, text) in list(place.unsure.items()):
                    await self.prompt(place, session, text, run_id)
            while True:
                waiting = await self.answer_some(1.0)
                agents = [await p.workspace.agent() for p in self.places if p.workspace]
                if not waiting and not any(agent["is_busy"] for agent in agents):
                    return
                await asyncio.sleep(0.1)
