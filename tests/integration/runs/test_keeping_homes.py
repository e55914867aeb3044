"""How long a worker stays the home of a workspace. Only on PostgreSQL: SQLite has one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from agents.models import Run
from agents.runs.claims.homes import WorkspaceHomes
from agents.runs.lease import Lease
from agents.runs.transitions import claim_runs
from tests.integration.databases import POSTGRESQL, Databases
from tests.integration.runs.ground import Ground, lose, open_ground, register_worker, write
from workspaces.actions.processes import RegistrationLost, leave_homes, take_home
from workspaces.log.reader import read
from workspaces.models import RegisteredProcess, Workspace, WorkspaceHome
from workspaces.placement.roots import Root, WorkerScope
from workspaces.queries.processes import home_of


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    with databases.get(POSTGRESQL).use():
        yield POSTGRESQL


@pytest.fixture(autouse=True)
def every_round_succeeds(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert "could not be compared" not in caplog.text


async def write_job(_: str, job: Any) -> Any:
    return await read(write, job)


class Worker:
    """A worker without a pool. ``runs`` are those that it performs."""

    def __init__(self, name: str, *, idle_seconds: float = 0.0) -> None:
        self.name = name
        self.scope: WorkerScope | None = None
        self.runs: dict[int, Any] = {}
        self.homes = WorkspaceHomes(
            name,
            lambda: self.scope,
            self.runs,
            is_shared=True,
            idle_seconds=idle_seconds,
            write=write_job,
        )

    async def claim(self) -> list[str]:
        """Returns the paths of the claimed runs."""
        homes = self.homes.for_claim()
        claimed = await write_job(
            "", lambda tx: claim_runs(tx, worker=self.name, limit=9, homes=homes)
        )
        for run in claimed:
            lease = Lease(run.key, run.fence, run.workspace_id, run.session_id)
            self.runs[run.key] = SimpleNamespace(held=lease)
        await self.homes.note_claim(homes, claimed)
        return sorted(run.path for run in claimed)

    async def end_all(self) -> None:
        await read(lambda: Run.objects.filter(pk__in=list(self.runs)).update(state="finished"))
        self.runs.clear()

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        keeping = asyncio.create_task(self.homes.keep())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


async def registered(name: str, *, idle_seconds: float = 0.0) -> Worker:
    await read(register_worker, name)
    return Worker(name, idle_seconds=idle_seconds)


async def new_run(path: str) -> Ground:
    def accept() -> Ground:
        known = Workspace.objects.filter(path=path).first()
        ground = open_ground(path) if known is None else Ground(known.pk, "")
        ground.accept(session_id=ground.new_session())
        return ground

    return await read(accept)


async def until_home(workspace_id: str, expected: str) -> None:
    async with asyncio.timeout(20):
        while await read(home_of, workspace_id) != expected:
            await asyncio.sleep(0.02)


async def test_a_home_ends_when_nothing_of_the_workspace_runs_there(database: str) -> None:
    one, two = await registered("one"), await registered("two")
    shop, shed = await new_run("/shop"), await new_run("/shed")
    async with one.kept():
        assert await one.claim() == ["/shed", "/shop"]
        del one.runs[max(one.runs)]
        await read(lambda: Run.objects.filter(workspace_id=shed.workspace_id).update(state="ready"))
        await until_home(shed.workspace_id, "")
        assert await read(home_of, shop.workspace_id) == "one"
        assert await two.claim() == ["/shed"]
        await one.end_all()
        await until_home(shop.workspace_id, "")


async def test_a_home_does_not_end_while_a_claimed_run_is_not_known_yet(database: str) -> None:
    one, two = await registered("one"), await registered("two")
    shop, shed = await new_run("/shop"), await new_run("/shed")
    assert await one.claim() == ["/shed", "/shop"]
    one.runs.clear()  # as between the commit of a claim and its answer
    await read(lambda: Run.objects.filter(workspace_id=shed.workspace_id).update(state="finished"))
    async with one.kept():
        await until_home(shed.workspace_id, "")
    await write_job("", lambda tx: leave_homes(tx, "one", []))  # as the next round does
    assert await read(home_of, shop.workspace_id) == "one"
    await new_run("/shop")
    assert await two.claim() == []


async def test_a_request_keeps_a_home(database: str) -> None:
    one = await registered("one")
    shop, shed = await new_run("/shop"), await new_run("/shed")
    async with one.kept():
        with one.homes.using(shop.workspace_id):
            assert await one.homes.take(shop.workspace_id) == "one"
            assert await one.homes.take(shed.workspace_id) == "one"
            await until_home(shed.workspace_id, "")
            assert await read(home_of, shop.workspace_id) == "one"
        await until_home(shop.workspace_id, "")


async def test_a_home_ends_when_its_folder_is_no_longer_served(database: str) -> None:
    one = await registered("one", idle_seconds=99)
    shop = await new_run("/mnt/data/shop")
    assert await one.claim() == ["/mnt/data/shop"]
    await one.end_all()
    one.scope = WorkerScope(True, (), (Root("data", "/mnt/data"),), frozenset())
    async with one.kept():
        await until_home(shop.workspace_id, "")


async def test_a_worker_that_drains_is_no_home_and_becomes_none(database: str) -> None:
    one, two = await registered("one"), await registered("two")
    shop = await new_run("/shop")
    assert await one.claim() == ["/shop"]
    await new_run("/shop")
    assert await two.claim() == []

    await one.homes.leave()

    assert await two.claim() == ["/shop"]
    assert await one.homes.take(shop.workspace_id) == "two"


async def test_a_worker_that_has_lost_its_registration_has_lost_its_homes(database: str) -> None:
    one, two = await registered("one"), await registered("two")
    shop = await new_run("/shop")
    assert await one.claim() == ["/shop"]
    await new_run("/shop")
    await read(lose, "one")
    with pytest.raises(RegistrationLost):
        await one.claim()
    assert await two.claim() == ["/shop"]

    one.name = "one.2"
    await read(register_worker, "one.2")
    one.homes.begin_again("one.2")
    await new_run("/shop")
    assert await one.claim() == []
    assert await one.homes.take(shop.workspace_id) == "two"


async def test_a_worker_without_others_stores_no_home(database: str) -> None:
    shop = await new_run("/shop")
    alone = WorkspaceHomes("one", lambda: None, {}, is_shared=False, write=write_job)
    assert alone.for_claim() is None
    assert await alone.take(shop.workspace_id) == "one"
    await alone.keep()
    assert not await read(WorkspaceHome.objects.exists)


async def test_a_home_of_which_the_worker_does_not_know_counts(database: str) -> None:
    one = await registered("one", idle_seconds=99)
    shop = await new_run("/shop")
    await read(write, lambda tx: take_home(tx, "one", shop.workspace_id))
    async with one.kept():
        async with asyncio.timeout(20):
            while shop.workspace_id not in one.homes.for_claim().held:  # type: ignore[union-attr]
                await asyncio.sleep(0.02)


async def test_a_worker_finds_out_whether_another_one_has_fewer_homes(database: str) -> None:
    one = await registered("one", idle_seconds=99)
    shop = await new_run("/shop")
    await read(write, lambda tx: take_home(tx, "one", shop.workspace_id))
    async with one.kept():
        await until_known(one, peers=(), is_ahead=True)
        await registered("two")
        await until_known(one, peers=("two",), is_ahead=True)
        shed = await new_run("/shed")
        await read(write, lambda tx: take_home(tx, "two", shed.workspace_id))
        await until_known(one, peers=("two",), is_ahead=False)


async def until_known(worker: Worker, *, peers: tuple[str, ...], is_ahead: bool) -> None:
    async with asyncio.timeout(20):
        while True:
            homes = worker.homes.for_claim()
            if homes is not None and (homes.peers, homes.is_ahead) == (peers, is_ahead):
                return
            await asyncio.sleep(0.02)


async def until_overflowing(expected: set[str]) -> None:
    rows = WorkspaceHome.objects.filter(is_overflowing=True).values_list("workspace_id", flat=True)
    async with asyncio.timeout(20):
        while set(await read(lambda: list(rows.all()))) != expected:
            await asyncio.sleep(0.05)


async def test_other_workers_claim_what_has_no_place_in_the_home(database: str) -> None:
    one, two = await registered("one"), await registered("two")
    await read(lambda: RegisteredProcess.objects.filter(pk="one").update(most_runs=2))
    shop, shed = await new_run("/shop"), await new_run("/shed")
    assert await one.claim() == ["/shed", "/shop"]
    await new_run("/shop")
    await new_run("/shed")
    assert await two.claim() == []
    with one.homes.using(shed.workspace_id):  # for example a shell, which has a state
        async with one.kept():
            await until_overflowing({shop.workspace_id})
            assert await two.claim() == ["/shop"]
            # A guest takes no home: its next run is for the home, when that has a place again.
            assert await read(home_of, shop.workspace_id) == "one"
            await one.end_all()
            one.runs[0] = SimpleNamespace(held=Lease(0, 1, shop.workspace_id, shop.session_id))
            await until_overflowing(set())
            await new_run("/shop")
            assert await two.claim() == []
            assert await one.claim() == ["/shed", "/shop"]
