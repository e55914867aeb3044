"""One chaos run from the start to the checks."""

import asyncio
import random
import time
from pathlib import Path
from typing import TextIO, TypeVar

from tests.chaos.checks import check_place, check_rows, noisy_lines, settle
from tests.chaos.faults import Faults
from tests.chaos.findings import Findings
from tests.chaos.gateway import Gateway
from tests.chaos.installation import Installation, installed
from tests.chaos.places import PLACES, SESSIONS, Place, Work
from tests.chaos.plan import Plan
from tests.chaos.readers import AttachedClient, NativeFollower

T = TypeVar("T")
_MOST_UNFINISHED = 24
_ANSWERING = 2  # clients that answer the same requests
_READERS = (("ws", 3.0), ("ws", 15.0), ("sse", 3.0), ("sse", 15.0))  # longest connections
_READ_SECONDS = 180.0
_PROGRESS_SECONDS = 10.0


async def carry_out(plan: Plan, logs: Path, chance: random.Random, out: TextIO) -> Findings:
    findings = Findings(out)
    began = time.monotonic()
    with installed(logs, places=PLACES) as installation:
        findings.note("started")
        async with Gateway(installation.server.urls, findings, chance) as gateway:
            await _Ordeal(plan, installation, gateway, findings, chance).carry_out()
        for problem in await asyncio.to_thread(installation.end):
            findings.violated("end", problem)
        findings.counted["noisy lines in logs"] = noisy_lines(installation.server.log_text())
    findings.counted["seconds"] = int(time.monotonic() - began)
    return findings


class _Ordeal:
    def __init__(
        self,
        plan: Plan,
        installation: Installation,
        gateway: Gateway,
        findings: Findings,
        chance: random.Random,
    ) -> None:
        self._plan = plan
        self._installation = installation
        self._gateway = gateway
        self._findings = findings
        self._chance = chance
        folders = installation.folders
        self._places = [Place(folder, asks=folder is folders[-1]) for folder in folders]
        self._work = Work(self._places, gateway, findings, chance)
        self._faults = Faults(installation, findings)
        self._followers: dict[int, list[NativeFollower]] = {}
        self._clients: dict[int, list[AttachedClient]] = {}
        self._is_over = False

    async def carry_out(self) -> None:
        await asyncio.gather(*(self._occupy(n, place) for n, place in enumerate(self._places)))
        async with asyncio.TaskGroup() as group:
            # Attached clients stay until all is checked: without them the workspaces close.
            following = [client.follow() for client in self._all(self._clients)]
            staying = [
                group.create_task(work)
                for work in (self._faults.watch(), self._report(), *following)
            ]
            await self._work_under_faults()
            await self._check()
            for task in staying:
                task.cancel()

    async def _work_under_faults(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reader in self._all(self._followers):
                group.create_task(reader.follow(lambda: self._is_over))
            for place in self._places:
                for _ in range(_ANSWERING if place.asks else 0):
                    group.create_task(self._work.answer(place, lambda: self._is_over))
            faults = group.create_task(self._faults.carry_out(self._plan.faults))
            await self._work.send_all(
                self._plan.runs,
                allowed=self._allowed,
                unfinished=self._unfinished,
                most_unfinished=_MOST_UNFINISHED,
            )
            await faults
            self._findings.note("the faults are over")
            await settle(self._work, self._findings)
            self._is_over = True

    @staticmethod
    def _all(by_place: dict[int, list[T]]) -> list[T]:
        return [each for found in by_place.values() for each in found]

    async def _occupy(self, number: int, place: Place) -> None:
        await self._work.open(place)
        self._clients[number] = [
            AttachedClient(place, web, self._gateway, self._findings)
            for web in range(len(self._gateway.webs))
        ]
        await asyncio.gather(*(client.attach() for client in self._clients[number]))
        await self._work.make_sessions(place, SESSIONS)
        self._followers[number] = [
            NativeFollower(
                place,
                transport,
                self._gateway,
                self._findings,
                self._chance,
                longest_seconds=longest,
            )
            for transport, longest in _READERS
        ]

    def _allowed(self) -> int:
        """The runs are spread over the faults."""
        share = (self._faults.carried_out + 1) / len(self._plan.faults)
        return int(min(1.0, share) * len(self._plan.runs))

    def _unfinished(self) -> int:
        ended = sum(
            max(len(reader.fold.ends) for reader in readers) for readers in self._followers.values()
        )
        return self._work.sent - ended

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_SECONDS)
            self._findings.note(
                f"{self._faults.carried_out} of {len(self._plan.faults)} faults,"
                f" {self._work.sent} of {len(self._plan.runs)} runs sent,"
                f" {self._unfinished()} unfinished, {len(self._findings.violations)} violations"
            )

    async def _check(self) -> None:
        counted = self._findings.counted
        counted["faults"] = self._faults.carried_out
        counted["runs accepted"] = sum(len(place.accepted) for place in self._places)
        counted["sessions cancelled"] = sum(len(place.cancelled) for place in self._places)
        counted["permission requests answered"] = sum(len(p.answers) for p in self._places)
        for number, place in enumerate(self._places):
            for request, count in place.answers.items():
                if count > 1:
                    self._findings.violated("answer", f"{count} answers counted for {request}")
            await check_place(
                self._work,
                place,
                self._followers[number],
                self._clients[number],
                self._findings,
                seconds=_READ_SECONDS,
            )
        url = self._installation.server.env["DATABASE_URL"]
        await asyncio.to_thread(check_rows, url, self._places, self._findings)
        followers = self._all(self._followers)
        counted["connections of readers"] = sum(f.connections for f in followers)
        counted["requests repeated: no answer"] = self._gateway.unanswered
        counted["requests repeated: refused"] = self._gateway.refused
