"""Children that wait for their next assignment."""

import asyncio
import os
import signal
import time
from dataclasses import replace

import pytest

from agents.fleet.parent.child_pool import ChildPool
from agents.fleet.parent.errors import SpawnFailed, TooManyChildren
from agents.fleet.parent.outcome import Order
from agents.fleet.parent.spawn import spawn_child
from agents.tools.shell.identity import started
from tests.integration.fleet.parent.conftest import launch, make_spec
from tests.integration.fleet.parent.listening import Ears


@pytest.fixture
async def warm(tmp_path):
    pools = []

    def make(**options):
        pool = ChildPool(lambda spec: spawn_child(spec, launch()), **options)
        pools.append(pool)
        return pool

    yield make
    for pool in pools:
        await pool.stop()


async def run(child, text="x"):
    return await child.run(child.assignment(Order(text), listener=Ears().listener))


def alive(*children):
    return [started(child.process.pid) != "" for child in children]


async def test_a_child_is_used_again_at_once(warm, tmp_path):
    pool = warm()
    first = await pool.take("w", make_spec(tmp_path, reusable=True))
    pool.give_back(first, is_usable=(await run(first)).is_child_usable)
    ears = Ears()
    begun = time.perf_counter()
    again = await pool.take("w", make_spec(tmp_path, reusable=True))
    running = asyncio.create_task(
        again.run(again.assignment(Order("a __sleep_ms:100"), listener=ears.listener))
    )
    await ears.heard()
    took = time.perf_counter() - begun
    assert again is first
    assert took < 10  # the bench measures it; this one shares its machine
    assert (await running).result == "echo: a"
    assert again.runs == 2


@pytest.mark.parametrize(
    "change",
    [{"workspace_id": "other"}, {"role": "reviewer"}, {"disabled_tools": ("bash",)}],
    ids=["workspace", "role", "tools"],
)
async def test_a_child_of_another_kind_is_not_taken(warm, tmp_path, change):
    pool = warm()
    first = await pool.take("w", make_spec(tmp_path, reusable=True))
    pool.give_back(first, is_usable=True)
    workspace_id = change.get("workspace_id", "w")
    rest = {key: value for key, value in change.items() if key != "workspace_id"}
    other = await pool.take(workspace_id, make_spec(tmp_path, reusable=True, **rest))
    assert other is not first


async def test_a_dead_child_is_not_handed_out(warm, tmp_path):
    pool = warm()
    first = await pool.take("w", make_spec(tmp_path, reusable=True))
    pool.give_back(first, is_usable=True)
    os.kill(first.process.pid, signal.SIGKILL)
    await first.process.wait(within_seconds=60)
    second = await pool.take("w", make_spec(tmp_path, reusable=True))
    assert second is not first
    assert (await run(second)).result == "echo: x"


@pytest.mark.parametrize(
    ("reusable", "usable"), [(False, True), (True, False)], ids=["once", "not usable"]
)
async def test_what_cannot_be_used_again_ends(warm, tmp_path, reusable, usable):
    pool = warm()
    child = await pool.take("w", make_spec(tmp_path, reusable=reusable))
    pool.give_back(child, is_usable=usable)
    pool.give_back(child, is_usable=usable)
    await pool.stop()
    assert alive(child) == [False]


async def test_those_that_idle_end(warm, tmp_path):
    pool = warm(idle_seconds=0.1)
    child = await pool.take("w", make_spec(tmp_path, reusable=True))
    pool.give_back(child, is_usable=True)
    assert pool.hosted() == {"w"}
    assert await child.process.wait(within_seconds=60)
    assert pool.hosted() == frozenset()


async def test_a_workspace_takes_its_children_with_it_also_those_at_work(warm, tmp_path):
    pool = warm()
    spec = make_spec(tmp_path, reusable=True)
    waiting, working = [await pool.take("w", renamed(spec, name)) for name in "ab"]
    other = await pool.take("v", renamed(spec, "c"))
    pool.give_back(waiting, is_usable=True)
    running = asyncio.create_task(run(working, "__sleep_ms:60000"))
    assert [busy for _, _, busy in pool.children()] == [True, True, False]
    await pool.close("w")
    await pool.close("w")
    assert alive(waiting, working, other) == [False, False, True]
    assert (await running).ending == "lost"
    assert pool.hosted() == {"v"}


async def test_only_a_few_wait(warm, tmp_path):
    pool = warm(most_waiting=1)
    spec = make_spec(tmp_path, reusable=True)
    kept, surplus = [await pool.take("w", renamed(spec, name)) for name in "ab"]
    pool.give_back(kept, is_usable=True)
    pool.give_back(surplus, is_usable=True)
    assert await surplus.process.wait(within_seconds=60)
    assert alive(kept) == [True]


async def test_the_number_of_children_is_bounded_and_a_waiting_one_gives_way(warm, tmp_path):
    pool = warm(most_children=1)
    spec = make_spec(tmp_path, reusable=True)
    first = await pool.take("w", spec)
    with pytest.raises(TooManyChildren):
        await pool.take("w", renamed(spec, "b"))
    pool.give_back(first, is_usable=True)
    await pool.take("v", renamed(spec, "b"))
    assert await first.process.wait(within_seconds=60)


async def test_a_workspace_that_closes_ends_a_child_that_just_starts(warm, tmp_path):
    pool = warm()
    taking = asyncio.create_task(pool.take("w", make_spec(tmp_path, kind="unreachable")))
    while not pool.hosted():
        await asyncio.sleep(0)
    await pool.close("w")
    with pytest.raises(SpawnFailed, match="was closed"):
        await taking
    assert pool.hosted() == frozenset()


async def test_who_stops_waiting_for_a_child_leaves_none(tmp_path):
    """Whether it is told before the child is there, or in the very moment."""
    spawned = asyncio.Event()
    child = None

    async def spawn(spec):
        nonlocal child
        child = await spawn_child(spec, launch())
        spawned.set()
        return child

    pool = ChildPool(spawn)
    taking = asyncio.create_task(pool.take("w", make_spec(tmp_path, reusable=True)))
    await spawned.wait()
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    await pool.stop()
    assert alive(child) == [False]
    assert pool.children() == []


async def test_who_stops_waiting_for_a_warm_child_leaves_none(warm, tmp_path):
    pool = warm()
    spec = make_spec(tmp_path, reusable=True)
    child = await pool.take("w", spec)
    pool.give_back(child, is_usable=True)
    os.kill(child.process.pid, signal.SIGSTOP)  # it will not answer
    taking = asyncio.create_task(pool.take("w", spec))
    while not pool.children()[0][2]:
        await asyncio.sleep(0)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert pool.children() == []
    await pool.stop()
    assert alive(child) == [False]


def renamed(spec, child_id):
    return replace(spec, identity=replace(spec.identity, child_id=child_id))
