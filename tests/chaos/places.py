"""Workspaces under work: what clients ask of them, and what was accepted."""

import asyncio
import json
import random
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.native import NativeSocket
from tests.chaos.findings import Findings
from tests.chaos.gateway import TROUBLE, Gateway
from tests.chaos.plan import PlannedRun, RunSort

Json = dict[str, Any]
PLACES, SESSIONS = 3, 8  # sessions in each
EFFECTS = "effects"  # the file to which commands append their marks
_GAP_MS = 40
_CONNECT_SECONDS = 20.0
_LOOK_SECONDS = 0.4
_SENDERS = 4
_WAIT_SECONDS = 0.05
_ANSWERS = ("allow", "allow", "allow", "allow_session", "deny")


@dataclass
class Place:
    """One workspace."""

    path: Path
    asks: bool  # people are asked before a tool acts
    id: str = ""
    sessions: list[str] = field(default_factory=list)
    runs: dict[str, PlannedRun] = field(default_factory=dict)  # those sent, by run id
    accepted: set[str] = field(default_factory=set)
    in_session: dict[str, str] = field(default_factory=dict)  # run id: session
    cancelled: set[str] = field(default_factory=set)  # sessions
    answers: Counter[str] = field(default_factory=Counter)  # that counted, by request

    @property
    def api(self) -> str:
        return f"/api/workspaces/{self.id}"

    @property
    def v1(self) -> str:
        return f"/v1/workspaces/{self.id}"

    def effects(self) -> Counter[str]:
        file = self.path / EFFECTS
        return Counter(file.read_text().split() if file.exists() else [])


def run_id(run: PlannedRun) -> str:
    return f"run-{run.number}"


def words(run: PlannedRun) -> list[str]:
    """The reply at the run's end."""
    count = int(run.seconds * 1000 / _GAP_MS) if run.sort is RunSort.REPLY else 4
    return [f"r{run.number}-{number}" for number in range(max(1, count))]


def script(run: PlannedRun) -> str:
    """What the scripted model is asked to do."""
    reply = f"[[n={len(words(run))} d={_GAP_MS} id=r{run.number}]]"
    calls = [f"{name} {json.dumps(arguments)}" for name, arguments in _calls(run)]
    return f"[[calls={' ;; '.join(calls)}]] {reply}" if calls else reply


def _calls(run: PlannedRun) -> list[tuple[str, Json]]:
    match run.sort:
        case RunSort.REPLY:
            return []
        case RunSort.EFFECTS:
            return [
                _bash(f"echo r{run.number}.{step} >> {EFFECTS}; sleep {run.seconds / 2:.2f}")
                for step in range(run.steps)
            ]
        case RunSort.SLOW_EFFECT:
            return [_bash(f"sleep {run.seconds + 2}; echo r{run.number}.0 >> {EFFECTS}")]
        case RunSort.READS:
            read = ("view", {"file_path": "crush.json"})
            return [read, ("ls", {"path": "."}), ("glob", {"pattern": "*.json"})][: run.steps]
        case RunSort.WRITES:
            text = f"r{run.number}"
            return [("write", {"file_path": f"{text}.txt", "content": text})]


def _bash(command: str) -> tuple[str, Json]:
    return "bash", {"command": command, "description": "mark"}


class Work:
    """The clients' side of all places, as the plan has it."""

    def __init__(
        self, places: list[Place], gateway: Gateway, findings: Findings, chance: random.Random
    ) -> None:
        self.places = places
        self._gateway = gateway
        self._findings = findings
        self._chance = chance
        self.sent = 0

    async def open(self, place: Place) -> None:
        """Opens the workspace for a moment; readers keep it open."""
        body = {"path": str(place.path), "client_id": str(uuid.uuid4()), "yolo": not place.asks}
        place.id = (await self._gateway.call("POST", "/v1/workspaces", body))["id"]

    async def make_sessions(self, place: Place, count: int) -> None:
        path, body = f"{place.v1}/sessions", {"title": "chaos"}
        made = await asyncio.gather(*(self._gateway.call("POST", path, body) for _ in range(count)))
        place.sessions = [session["id"] for session in made]

    async def send_all(
        self,
        runs: tuple[PlannedRun, ...],
        *,
        allowed: Callable[[], int],
        unfinished: Callable[[], int],
        most_unfinished: int,
    ) -> None:
        """Sends the runs in order: so many until now, and no more than so many at once."""
        waiting = iter(runs)
        async with asyncio.TaskGroup() as group:

            async def send_next() -> None:
                async for run in _paced(waiting, ready):
                    self.sent += 1
                    await self._send(run)
                    if run.cancel_after is not None:
                        group.create_task(self._cancel(run))

            def ready() -> bool:
                return self.sent < allowed() and unfinished() < most_unfinished

            for _ in range(_SENDERS):
                group.create_task(send_next())

    async def _send(self, run: PlannedRun) -> None:
        place = self.places[run.place]
        session = place.sessions[run.session]
        key = run_id(run)
        place.runs[key], place.in_session[key] = run, session
        body = {"session_id": session, "prompt": script(run), "run_id": key}
        if await self.ask(place, "POST", "/agent", body, expect=202) is not CLOSED:
            place.accepted.add(key)

    async def _cancel(self, run: PlannedRun) -> None:
        assert run.cancel_after is not None
        await asyncio.sleep(run.cancel_after)
        place = self.places[run.place]
        session = place.sessions[run.session]
        place.cancelled.add(session)
        await self.ask(place, "POST", f"/agent/sessions/{session}/cancel")

    async def ask(
        self, place: Place, method: str, path: str, body: Any = None, *, expect: int = 200
    ) -> Any:
        """A request below the workspace; a workspace that was closed is opened again once."""
        for _ in range(2):
            try:
                return await self._gateway.call(method, place.v1 + path, body, expect=expect)
            except UnexpectedStatus as error:
                self._findings.violated(
                    "workspace closed" if error.status == 404 else "status", str(error)
                )
                if error.status == 404:
                    await self.open(place)
        return CLOSED

    async def snapshot(self, place: Place, session: str = "") -> Json:
        path = f"{place.api}/snapshot?session={session}&limit=1000"
        return dict(await self._gateway.call("GET", path))

    async def answer(self, place: Place, is_over: Callable[[], bool]) -> None:
        """One client that answers what waits, now by `/v1`, now by a socket."""
        while not is_over():
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                waiting = (await self.snapshot(place))["permissions"]
            except UnexpectedStatus as error:
                self._findings.violated("status", str(error))
                await self.open(place)
                continue
            for request in waiting:
                if self._chance.random() < 0.7:
                    await self._answer_one(place, request["id"], self._chance.choice(_ANSWERS))

    async def _answer_one(self, place: Place, request: str, answer: str) -> None:
        if self._chance.random() < 0.5:
            body = {"permission": {"id": request}, "action": answer}
            found = await self.ask(place, "POST", "/permissions/grant", body)
            counted = found is not CLOSED and found["resolved"]
        else:
            counted = await self._answer_by_socket(place, request, answer)
        if counted:
            place.answers[request] += 1

    async def _answer_by_socket(self, place: Place, request: str, answer: str) -> bool:
        reader = NativeSocket(self._gateway.any_web(), place.id)
        command = {"id": 1, "command": "answer", "request_id": request, "answer": answer}
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await reader.open()
                await reader.send(command)
                reply = await reader.wait_for(lambda item: item.type == "reply")
        except (*TROUBLE, AssertionError):
            return False  # the connection ended: nobody knows, and the next look shows it
        finally:
            with suppress(*TROUBLE):
                await reader.close(abort=True)
        return bool(reply.body["ok"] and reply.body["data"]["resolved"])


CLOSED = object()


async def _paced(
    runs: Iterator[PlannedRun], ready: Callable[[], bool]
) -> AsyncIterator[PlannedRun]:
    for run in runs:
        while not ready():
            await asyncio.sleep(_WAIT_SECONDS)
        yield run
