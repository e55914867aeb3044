"""Runs of remote workspaces: which are accepted, and which process claims them."""

from __future__ import annotations

import pytest

from agents.fleet.parent.joined import WorkerHello
from agents.models import RemoteWorker, RunKind
from agents.runs.accept import PromptAttachment
from agents.runs.claims.claim_order import ClaimedPlaces
from agents.runs.prompting.remote_workers import (
    LOST_MS,
    WorkerAway,
    WorkerNameTaken,
    connected_workers,
    forget_worker,
    note_worker,
)
from agents.turn.options import Budget, RunOptions
from tests.integration.runs.ground import Ground, claim, open_ground, write
from workspaces.log.errors import BadField
from workspaces.log.timestamps import now_ms
from workspaces.queries.workspaces import RemoteFolder, read_open_workspace

BOX = WorkerHello("box", "first", ("src", "docs"), 4)


@pytest.fixture
def remote(ground: Ground) -> Ground:
    """A workspace of a connected remote worker, and one of this machine."""
    join(BOX)
    return open_ground("box:src")


def join(hello: WorkerHello, server: str = "server") -> None:
    write(lambda tx: note_worker(tx, hello, server=server))


def claimed(places: ClaimedPlaces) -> list[int]:
    """The keys of the runs that a process claims."""
    return sorted(run.key for run in claim(places=places))


def test_only_a_process_with_the_worker_claims_its_runs(ground: Ground, remote: Ground) -> None:
    there = remote.accept("there")
    assert claimed(ClaimedPlaces()) == []
    assert claimed(ClaimedPlaces(remote={"other:src": 9, "box:docs": 9})) == []
    here = ground.accept("here")
    assert claimed(ClaimedPlaces(folders=False, remote={"box:src": 9})) == [there]
    assert claimed(ClaimedPlaces(folders=False, remote={"box:src": 9})) == []
    assert claimed(ClaimedPlaces()) == [here]


def test_one_process_claims_the_runs_of_folders_and_of_its_workers(
    ground: Ground, remote: Ground
) -> None:
    keys = [ground.accept("here"), remote.accept("there")]
    assert claimed(ClaimedPlaces(remote={"box:src": 1})) == keys


def test_with_more_runs_than_places_the_turns_hold_for_remote_workspaces(
    ground: Ground, remote: Ground
) -> None:
    sessions = [remote.new_session() for _ in range(12)]
    keys = [remote.accept("there", session_id=session) for session in sessions]
    ground.accept("here")
    assert claimed(ClaimedPlaces(folders=False, remote={"box:src": 10})) == keys[:9]


def test_a_remote_workspace_takes_no_more_places_than_it_has_free_connections(
    ground: Ground, remote: Ground
) -> None:
    sessions = [remote.new_session() for _ in range(12)]
    keys = [remote.accept("there", session_id=session) for session in sessions]
    here = ground.accept("here")
    assert claimed(ClaimedPlaces(remote={"box:src": 2})) == [*keys[:2], here]
    assert claimed(ClaimedPlaces(remote={"box:src": 3})) == keys[2:5]


def test_a_prompt_needs_its_worker(ground: Ground) -> None:
    away = open_ground("box:src")
    with pytest.raises(WorkerAway, match="'box' is not connected"):
        away.accept()
    join(BOX)
    away.accept()
    with pytest.raises(WorkerAway, match=r"has no folder 'lib'. It has: docs, src\."):
        open_ground("box:lib").accept()
    RemoteWorker.objects.update(seen_at=now_ms() - LOST_MS - 1)
    with pytest.raises(WorkerAway, match="'box' is not connected"):
        away.accept()


def test_what_the_wire_cannot_carry_is_refused(remote: Ground) -> None:
    with pytest.raises(BadField, match="model"):
        remote.accept(options=RunOptions(model="small"))
    with pytest.raises(BadField, match="budget"):
        remote.accept(options=RunOptions(budget=Budget(steps=1)))
    with pytest.raises(BadField, match="attachments"):
        remote.accept(attachments=(PromptAttachment("a.png", "a.png", "image/png", ""),))
    with pytest.raises(RemoteFolder, match="not summarised"):
        remote.accept(kind=RunKind.SUMMARY)
    remote.accept(options=RunOptions(effort="high"))


def test_a_remote_workspace_has_no_folder_here(ground: Ground, remote: Ground) -> None:
    with pytest.raises(RemoteFolder):
        _ = read_open_workspace(remote.workspace_id).folder
    assert read_open_workspace(ground.workspace_id).folder == "/project"


def test_a_name_belongs_to_one_worker_until_its_row_is_too_old(ground: Ground) -> None:
    other = WorkerHello("box", "second", ("src",), 1)
    join(BOX)
    join(BOX)  # another connection of the same one
    with pytest.raises(WorkerNameTaken):
        join(other)
    RemoteWorker.objects.update(seen_at=now_ms() - LOST_MS - 1)
    join(other)
    assert RemoteWorker.objects.get().instance == "second"


def test_a_row_is_removed_when_the_worker_has_left_every_process(ground: Ground) -> None:
    join(BOX, "one")
    join(BOX, "two")
    join(BOX, "one")
    write(lambda tx: forget_worker(tx, "box", server="one"))
    assert connected_workers(now_ms()) == {"box"}
    write(lambda tx: forget_worker(tx, "box", server="two"))
    assert connected_workers(now_ms()) == frozenset()
    write(lambda tx: forget_worker(tx, "box", server="two"))


def test_a_process_that_was_lost_keeps_no_row(ground: Ground) -> None:
    join(BOX, "lost")
    long_ago = now_ms() - LOST_MS - 1
    RemoteWorker.objects.update(seen_at=long_ago, servers=f'{{"lost": {long_ago}}}')
    join(BOX, "two")
    write(lambda tx: forget_worker(tx, "box", server="two"))
    assert not RemoteWorker.objects.exists()
