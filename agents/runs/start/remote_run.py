"""Performs the prompts of remote workspaces by remote workers.

A remote worker performs a prompt as a sub-agent performs an assignment, and its words, tool calls and
questions come back in the same way. The wire carries texts: neither tool results of earlier prompts
nor the use of models.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from typing_extensions import override

from agents.config.cache import configs
from agents.fleet.parent.child import RunningChild
from agents.fleet.parent.joined import JoinedConnection, RemoteWorkers
from agents.fleet.parent.outcome import ChildOutcome as Ended
from agents.fleet.parent.outcome import Ending, Order, RunLimits
from agents.runs.children.child_run import ChildQuestions, FleetRun
from agents.runs.conversation import read_transcript
from agents.runs.lease import require_lease
from agents.runs.rows import Claimed
from agents.runs.start.start_run import RunMeans, StartedRun, StartRun
from agents.runs.title import FirstTitle
from agents.runs.transitions import release
from agents.turn.transcript import TurnMessage
from workspaces.log.parts import Role, plain_text
from workspaces.log.reader import read
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.placement.remote_place import RemotePlace, remote_place
from workspaces.tasks import unless_set

EARLIER_CHARS = 4_000_000  # of the conversation that goes with a prompt: a frame is limited


class RemoteRun(FleetRun):
    """Performs one claimed prompt of a remote workspace until it ends."""

    provider = "remote"

    def __init__(
        self,
        claimed: Claimed,
        *,
        place: RemotePlace,
        workers: RemoteWorkers,
        means: RunMeans,
    ) -> None:
        super().__init__(
            claimed,
            hub=means.hub,
            checkpoints=means.checkpoints,
            server_mark=means.server_mark,
        )
        self.role_name = place.worker
        self._workers = workers
        self._connection: JoinedConnection | None = None
        self._is_usable = True
        self._title = FirstTitle(claimed, means.side)

    @override
    async def perform(self) -> None:
        """Waits for a free connection, then performs the run to its end. Raises ``LeaseLost``."""
        self._connection = await self._taken()
        if self._connection is None and not self.is_cancelled:
            # Its worker has gone: the run is claimed again when it returns.
            await writer.write(self.held.workspace_id, self._release)
            return
        try:
            await super().perform()
        except BaseException:
            self._is_usable = False
            raise
        finally:
            if self._connection is not None:
                if not self._is_usable:  # it may still work at the run
                    await self._connection.close()
                self._workers.give_back(self._connection)

    async def _taken(self) -> JoinedConnection | None:
        taking = asyncio.create_task(self._workers.take(self.claimed.path))
        taken = None
        try:
            if await unless_set(taking, self._stop):
                taken = taking.result()
            return taken
        finally:
            if not taking.done():
                taking.cancel()
            elif taken is None and (unwanted := taking.result()) is not None:
                self._workers.give_back(unwanted)

    def _release(self, tx: Transaction) -> None:
        require_lease(tx, self.held)
        release(tx, self.held.key)

    @override
    async def _carry_out(self) -> Ended:
        if self._connection is None:
            return Ended(Ending.CANCELLED)
        settings = (await configs().newest_config_of(self.held.workspace_id)).settings
        self._questions = ChildQuestions(
            self.held,
            path=self.claimed.path,
            allowed_tools=settings.allowed_tools,
            on_waiting=self._notes.write_waiting,
        )
        stored = await read(read_transcript, self.held.session_id, self.held.key)
        own = frozenset(message.id for message in stored.own)
        prompt = "\n\n".join(
            plain_text(message.parts) for message in stored.own if message.role is Role.USER
        )
        earlier = _texts(message for message in stored.messages if message.id not in own)
        order = Order(
            prompt,
            self.claimed.options.effort or None,
            [*_newest(earlier), {"role": "user", "content": prompt}],
        )
        child = RunningChild(
            self.role_name, self.role_name, self.claimed.path, self._connection, is_reusable=True
        )
        self._is_usable = False
        ended = await self._assign(child, order, RunLimits(), self._questions)
        self._is_usable = ended.is_child_usable
        return replace(ended, result=None, error=self._explained(ended))

    @override
    async def _receive(self, event: Any) -> None:
        await super()._receive(event)
        self._title.begin()

    def _explained(self, ended: Ended) -> str:
        if ended.ending not in {Ending.LOST, Ending.UNRESPONSIVE}:
            return ended.error
        return (
            f"the connection to the remote worker {self.role_name!r} was lost while it worked, and"
            " the outcome is unknown. Check its folder before you send the prompt again"
        )


def _texts(messages: Iterable[TurnMessage]) -> list[dict[str, str]]:
    """Returns the texts of users and models, as the wire has them."""
    texts = ((message.role, plain_text(message.parts)) for message in messages)
    return [
        {"role": role.value, "content": text}
        for role, text in texts
        if role in {Role.USER, Role.ASSISTANT} and text.strip()
    ]


def _newest(messages: list[dict[str, str]]) -> list[dict[str, str]]:
    return list(_within(messages, EARLIER_CHARS))[::-1]


def _within(messages: list[dict[str, str]], room: int) -> Iterator[dict[str, str]]:
    for message in reversed(messages):
        room -= len(message["content"])
        if room < 0:
            return
        yield message


class StartRemote:
    """Performs prompts of remote workspaces by their workers, and other runs elsewhere."""

    def __init__(self, otherwise: StartRun, workers: RemoteWorkers, means: RunMeans) -> None:
        self._otherwise = otherwise
        self._workers = workers
        self._means = means

    def __call__(self, claimed: Claimed) -> StartedRun:
        place = remote_place(claimed.path)
        if place is None:
            return self._otherwise(claimed)
        return RemoteRun(claimed, place=place, workers=self._workers, means=self._means)
