"""`kill -9` at any moment: what was accepted comes to exactly one end, and nothing is done twice."""

import asyncio
import contextlib
import json
import random
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.acceptance.conversation import roles_and_finishes, take_seat, text_of
from tests.acceptance.folding import Fold, differences
from tests.acceptance.harness.client import Client, Workspace
from tests.acceptance.harness.native import NativeSse
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.rough_reader import RoughReader

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeServer = Callable[..., Server]

KILLS = 50
UNFINISHED = 20  # runs that are running, queued or parked when the server is killed
# Nobody's claim lapses while the server is down; a dead worker's runs are free again soon.
PATIENT = {"CRUSH_SERVER_CREATE_GRACE": "600", "CRUSH_SERVER_DETACH_GRACE": "600"}
QUICK = {"CRUSH_LEASE": "2", "CRUSH_POLL": "0.2"}
DOWN = (aiohttp.ClientError, ConnectionError, TimeoutError)


def bash(command: str) -> str:
    return "bash " + json.dumps({"command": command, "description": "mark"})


def finish_of(message: dict[str, Any]) -> dict[str, Any]:
    return next(p["data"] for p in message["parts"] if p["type"] == "finish")


async def log_of(client: Client, workspace: Workspace) -> Fold:
    """The whole log, folded from its first event."""
    reader = NativeSse(client.http, workspace.id, after=0)
    await reader.open()
    await reader.wait_for(lambda r: r.type == "stream.opened", 60)
    await reader.close()
    fold = Fold()
    for item in reader.received:
        fold.take(item.body)
    return fold


# -- 50 random points


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

    async def round(self, which: Any) -> None:
        """Work for a moment, a kill in the middle of it, and a start."""
        async with Client(self.server.url) as client:
            for place in self.places:
                await place.open(client)
            kill = asyncio.create_task(self._kill(self.chance.random() * 0.5, which))
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
        async with asyncio.timeout(90):
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


@pytest.mark.timeout(900)
async def test_every_accepted_run_ends_once_whenever_the_server_is_killed(
    make_a_server: MakeServer, shape: Shape, connect: Connect, project: MakeProject
) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")  # shown when it fails
    chance = random.Random(seed)
    server = make_a_server(shape, env={**PATIENT, **QUICK})
    await asyncio.to_thread(server.start)
    places = [Place(project("free"), yolo=True), Place(project("asked"), yolo=False)]
    ordeal = Ordeal(server, chance, places)
    began = time.monotonic()
    for _ in range(KILLS):
        which = (
            "all" if shape is Shape.EMBEDDED else chance.choice(["worker", "worker", "web", "all"])
        )
        await ordeal.round(which)
    print(f"{KILLS} kills in {time.monotonic() - began:.0f} s")
    client = connect(server)
    await ordeal.settle(client)
    counts = [await check_place(client, place) for place in places]
    assert sum(counts) > 100


async def check_place(client: Client, place: Place) -> int:
    """How many runs came to their end there."""
    workspace, reader = place.workspace, place.reader
    assert workspace is not None
    assert reader is not None
    fold = await log_of(client, workspace)
    fold.check_runs()
    await reader.read_to(fold.number)
    assert reader.fold.messages == fold.messages
    assert reader.fold.sessions == fold.sessions
    by_run_id = Counter(run.get("run_id") for run in fold.accepted.values())
    anonymous = by_run_id.pop(None, 0)
    assert set(place.accepted) == set(by_run_id)
    assert all(count == 1 for count in by_run_id.values())
    # A request that died with the server may have been accepted all the same.
    assert anonymous >= place.anonymous
    assert (await workspace.agent())["is_busy"] is False
    stored: list[dict[str, Any]] = []
    for session in place.sessions:
        assert (await workspace.get_session(session))["is_busy"] is False
        assert await workspace.queued(session) == 0
        snapshot = await client.http.call(
            "GET", f"/api/workspaces/{workspace.id}/snapshot", params={"session": session}
        )
        assert differences(fold, snapshot, session) == []
        assert snapshot["messages"] == await workspace.messages(session)
        check_calls(snapshot["messages"])
        stored += snapshot["messages"]
    outcomes = Counter(run["outcome"] for run in fold.ends)
    print(outcomes)
    assert set(outcomes) <= {"completed", "interrupted"}, outcomes
    messages = {message["id"]: message for message in stored}
    for run in fold.ends:
        last = finish_of(messages[run["message_id"]])
        if run["outcome"] == "interrupted":
            assert "interrupted" in run["error"]
            assert last["reason"] == "error"
        else:
            assert not run["error"]
            assert last["reason"] == "end_turn"
    check_executions(place, stored)
    return len(fold.ends)


def check_calls(messages: list[dict[str, Any]]) -> None:
    """Every call of a session has one result, and follows a reply that is finished."""
    calls: Counter[str] = Counter()
    results: Counter[str] = Counter()
    for message in messages:
        assert [p["type"] for p in message["parts"]].count("finish") == 1, message
        for part in message["parts"]:
            if part["type"] == "tool_call":
                calls[part["data"]["id"]] += 1
            elif part["type"] == "tool_result":
                results[part["data"]["tool_call_id"]] += 1
    assert calls == results


def check_executions(place: Place, messages: list[dict[str, Any]]) -> None:
    """Each call ran at most once, and each that has its tool's own result ran."""
    commands: Counter[str] = Counter()
    finished: Counter[str] = Counter()
    tags: dict[str, str] = {}
    for message in messages:
        for part in message["parts"]:
            data = part["data"]
            if part["type"] == "tool_call":
                tag = re.search(r"echo (m\d+) ", data["input"])
                assert tag is not None
                tags[data["id"]] = tag[1]
                commands[tag[1]] += 1
            elif part["type"] == "tool_result" and not data["is_error"]:
                finished[tags[data["tool_call_id"]]] += 1
    marks = place.marks
    for tag in commands | marks:
        assert finished[tag] <= marks[tag] <= commands[tag], tag
    assert finished.total() >= 3


# -- chosen points


@dataclass
class Gates:
    """Named places at which the server's runs wait while a file is there."""

    folder: Path

    def hold(self, name: str) -> None:
        (self.folder / f"{name}.hold").touch()

    def open(self, name: str) -> None:
        (self.folder / f"{name}.hold").unlink()

    async def reached(self, name: str) -> None:
        async with asyncio.timeout(30):
            while not (self.folder / f"{name}.reached").exists():
                await asyncio.sleep(0.005)


@pytest.fixture
def gates(tmp_path: Path) -> Gates:
    folder = tmp_path / "gates"
    folder.mkdir()
    return Gates(folder)


@pytest.fixture
def gated_server(make_a_server: MakeServer, shape: Shape, gates: Gates) -> Server:
    server = make_a_server(shape, env={**PATIENT, **QUICK, "CRUSH_GATES": str(gates.folder)})
    server.start()
    return server


async def die(server: Server) -> None:
    await asyncio.to_thread(server.kill9)


async def test_a_run_between_two_steps_goes_on_and_repeats_nothing(
    gated_server: Server, gates: Gates, connect: Connect, project: MakeProject
) -> None:
    path = project()
    seat = await take_seat(connect(gated_server), path, yolo=True)
    calls = f"[[calls={bash('echo a >> marks')} ;; {bash('echo b >> marks')}]] [[n=3]]"
    waits = {"run.begun": [], "reply.saved": [], "result.saved": ["a"]}
    held = {}
    for gate in waits:
        held[gate] = await seat.workspace.session()
    done: list[str] = []
    for gate, session in held.items():
        gates.hold(gate)
        await seat.workspace.prompt(session, calls, gate)
        await gates.reached(gate)
        marks = path / "marks"
        assert (marks.read_text().split() if marks.exists() else []) == done + waits[gate]
        await die(gated_server)
        gates.open(gate)
        await asyncio.to_thread(gated_server.start)
        seat = await take_seat(
            connect(gated_server), path, yolo=True, client_id=seat.workspace.client_id
        )
        fold = await wait_for_ends(connect(gated_server), seat.workspace, len(done) // 2 + 1)
        done += ["a", "b"]
        assert marks.read_text().split() == done
        assert [run["outcome"] for run in fold.ends] == ["completed"] * (len(done) // 2)
        assert roles_and_finishes(await seat.workspace.messages(session)) == [
            ("user", "stop"),
            ("assistant", "tool_use"),
            ("tool", "stop"),
            ("tool", "stop"),
            ("assistant", "end_turn"),
        ]


async def wait_for_ends(client: Client, workspace: Workspace, count: int) -> Fold:
    """The log folded, once so many runs have ended and none is left."""
    async with asyncio.timeout(30):
        while True:
            fold = await log_of(client, workspace)
            if len(fold.ends) >= count and not (await workspace.agent())["is_busy"]:
                fold.check_runs()
                return fold
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("answered", ["before", "after"])
async def test_a_run_that_was_about_to_park_is_asked_once_and_answered_once(
    gated_server: Server, gates: Gates, connect: Connect, project: MakeProject, answered: str
) -> None:
    """Its question is stored and its run is not parked yet; the answer comes on either side."""
    path = project()
    seat = await take_seat(connect(gated_server), path)
    session = await seat.workspace.session()
    gates.hold("run.parking")
    await seat.workspace.prompt(session, f"[[tool={bash('echo a >> marks')}]] [[n=3]]", "asks")
    await gates.reached("run.parking")
    asked = (await seat.stream.wait_for(lambda e: e.type == "permission_request")).payload
    if answered == "before":
        assert await seat.workspace.grant(asked) is True
    await die(gated_server)
    gates.open("run.parking")
    await asyncio.to_thread(gated_server.start)
    again = await take_seat(connect(gated_server), path, client_id=seat.workspace.client_id)
    if answered == "after":
        shown = await again.stream.wait_for(lambda e: e.type == "permission_request")
        assert shown.payload == asked
        assert await again.workspace.grant(asked) is True
    assert await again.workspace.grant(asked) is False
    fold = await wait_for_ends(connect(gated_server), again.workspace, 1)
    assert fold.kinds["permission.requested"] == fold.kinds["permission.resolved"] == 1
    assert [run["outcome"] for run in fold.ends] == ["completed"]
    assert (path / "marks").read_text().split() == ["a"]


async def test_an_answer_just_before_parking_takes_no_neighbours_result_with_it(
    gated_server: Server,
    gates: Gates,
    connect: Connect,
    project: MakeProject,
    tmp_path: Path,
) -> None:
    """Of two calls side by side one is asked for; the other ends, and the run wants to park."""
    (tmp_path / "outside.txt").write_text("from outside\n")
    path = project()
    (path / "inside.txt").write_text("from inside\n")
    seat = await take_seat(connect(gated_server), path)
    session = await seat.workspace.session()
    gates.hold("run.parking")
    calls = " ;; ".join(
        f"view {json.dumps({'file_path': str(file)})}"
        for file in (tmp_path / "outside.txt", path / "inside.txt")
    )
    await seat.workspace.prompt(session, f"[[calls={calls}]] [[n=3]]")
    await gates.reached("run.parking")
    asked = (await seat.stream.wait_for(lambda e: e.type == "permission_request")).payload
    assert await seat.workspace.grant(asked) is True
    gates.open("run.parking")
    await seat.stream.run_complete(session)
    given = [
        part["data"]
        for message in await seat.workspace.messages(session)
        for part in message["parts"]
        if part["type"] == "tool_result"
    ]
    assert sorted("from inside" in result["content"] for result in given) == [False, True]
    assert all("from" in result["content"] for result in given)
    assert len({result["tool_call_id"] for result in given}) == len(given) == 2


@pytest.mark.parametrize("action", ["allow", "deny"])
async def test_a_parked_run_is_still_asked_after_a_crash(
    gated_server: Server, connect: Connect, project: MakeProject, action: str
) -> None:
    path = project()
    seat = await take_seat(connect(gated_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, f"[[tool={bash('echo a >> marks')}]] [[n=3]]", "asks")
    asked = (await seat.stream.wait_for(lambda e: e.type == "permission_request")).payload
    await seat.workspace.prompt(session, "[[n=3]]", "queued")
    async with asyncio.timeout(20):
        while not (await log_of(connect(gated_server), seat.workspace)).kinds["run.parked"]:
            await asyncio.sleep(0.02)
    await die(gated_server)
    await asyncio.to_thread(gated_server.start)
    again = await take_seat(connect(gated_server), path, client_id=seat.workspace.client_id)
    shown = await again.stream.wait_for(lambda e: e.type == "permission_request")
    assert shown.payload == asked
    assert (await again.workspace.get_session(session))["is_busy"] is True
    assert await again.workspace.queue(session) == ["[[n=3]]"]
    assert await again.workspace.grant(asked, action) is True
    fold = await wait_for_ends(connect(gated_server), again.workspace, 2)
    assert [run["run_id"] for run in fold.ends] == ["asks", "queued"]
    assert [run["outcome"] for run in fold.ends] == ["completed", "completed"]
    marks = path / "marks"
    assert (marks.read_text().split() if marks.exists() else []) == ["a"] * (action == "allow")


async def test_a_run_cut_inside_a_tool_is_settled_and_its_follow_up_runs(
    gated_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project()
    seat = await take_seat(connect(gated_server), path, yolo=True)
    session = await seat.workspace.session()
    slow = "echo $$ >> marks; sleep 300"
    await seat.workspace.prompt(session, f"[[tool={bash(slow)}]] [[n=3]]", "cut")
    await seat.workspace.prompt(session, "[[n=4]]", "next")
    marks = path / "marks"
    async with asyncio.timeout(20):
        while not (marks.exists() and marks.read_text().endswith("\n")):
            await asyncio.sleep(0.01)
    await die(gated_server)
    await asyncio.to_thread(gated_server.start)
    again = await take_seat(connect(gated_server), path, client_id=seat.workspace.client_id)
    fold = await wait_for_ends(connect(gated_server), again.workspace, 2)
    cut, following = fold.ends
    assert (cut["run_id"], cut["outcome"]) == ("cut", "interrupted")
    assert "interrupted" in cut["error"]
    assert (following["run_id"], following["outcome"]) == ("next", "completed")
    messages = await again.workspace.messages(session)
    assert roles_and_finishes(messages) == [
        ("user", "stop"),
        ("assistant", "error"),
        ("tool", "stop"),
        ("user", "stop"),
        ("assistant", "end_turn"),
    ]
    (result,) = [p["data"] for p in messages[2]["parts"] if p["type"] == "tool_result"]
    assert result["is_error"] is True
    assert "interrupted" in result["content"]
    (pid,) = marks.read_text().split()  # it ran once
    async with asyncio.timeout(10):
        while Path(f"/proc/{pid}").exists():  # and died with its server
            await asyncio.sleep(0.05)


async def test_a_run_cut_inside_a_stream_keeps_its_checkpointed_words(
    gated_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project()
    seat = await take_seat(connect(gated_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, "[[n=2000 d=10]]", "cut")
    seen = await seat.stream.words(session, 60)
    # A checkpoint a few times a second: what was shown half a second ago is stored.
    await asyncio.sleep(0.6)
    await die(gated_server)
    shown = [e.text for e in seat.stream.events if e.type == "message" and e.text]
    await asyncio.to_thread(gated_server.start)
    again = await take_seat(connect(gated_server), path, client_id=seat.workspace.client_id)
    fold = await wait_for_ends(connect(gated_server), again.workspace, 1)
    assert [run["outcome"] for run in fold.ends] == ["interrupted"]
    messages = await again.workspace.messages(session)
    assert roles_and_finishes(messages) == [("user", "stop"), ("assistant", "error")]
    kept = text_of(messages[1])
    assert kept.startswith(seen.text)
    assert shown[-1].startswith(kept) or kept.startswith(shown[-1])
    assert fold.ends[0]["message_id"] == messages[1]["id"]
    # The session is as good as new.
    await again.workspace.prompt(session, "[[n=3]]", "after")
    assert "error" not in await again.stream.run_complete(session, "after")
