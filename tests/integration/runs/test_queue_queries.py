"""What of the queue is read, and that nothing of other sessions, workers and workspaces is."""

from __future__ import annotations

import pytest

from agents.models import Run, RunKind
from agents.runs.accept import Prompt, accept_prompt, accept_summary
from agents.runs.cancel import cancel_session, withdraw_runs
from agents.runs.finish import rescue_run
from agents.runs.queries import (
    busy_sessions,
    has_waiting_prompts,
    held_runs,
    is_held,
    lost_runs,
    queued_prompts,
    released_processes,
)
from agents.states import RunOutcome
from tests.integration.runs.ground import (
    Ground,
    begin,
    cancelled_of,
    claim,
    end,
    held_by,
    lose,
    open_ground,
    register_worker,
    run_of,
    say,
    step,
    write,
)
from workspaces.log.timestamps import now_ms
from workspaces.models import ClientClaim, RegisteredProcess
from workspaces.queries.processes import late_processes


@pytest.fixture
def other() -> Ground:
    """A second workspace, with the same client in it."""
    return open_ground("/other")


def attach(ground: Ground, client_id: str, *, current: str = "") -> None:
    ClientClaim.objects.create(
        workspace_id=ground.workspace_id,
        client_id=client_id,
        expires_at=10**15,
        current_session_id=current,
    )


def busy_ids(ground: Ground, client_id: str = "") -> list[str]:
    return [row["id"] for row in busy_sessions(ground.workspace_id, client_id)]


# -- the prompts that wait


def test_the_queue_lists_prompts_and_no_other_runs(ground: Ground) -> None:
    held = ground.start("running")
    say(held, "words")
    ground.accept("first")
    write(lambda tx: accept_summary(tx, ground.workspace_id, ground.session_id))
    ground.accept("a child's task", kind=RunKind.AGENT)
    ground.accept("second")

    assert queued_prompts(ground.workspace_id, ground.session_id) == ["first", "second"]


def test_a_prompt_leaves_the_queue_when_it_runs_and_does_not_return_when_it_waits(
    ground: Ground,
) -> None:
    held = ground.start("first")
    key = ground.accept("second", run_id="r")
    ground.accept("third", run_id="s")
    end(held)
    second = begin(held_by(key, *claim()))
    assert queued_prompts(ground.workspace_id, ground.session_id) == ["third"]

    say(second, calls=["c"])
    step(second, parks=True)

    assert queued_prompts(ground.workspace_id, ground.session_id) == ["third"]


def test_a_running_turn_takes_in_no_prompt_of_another_session(ground: Ground) -> None:
    held = ground.start()
    session = ground.new_session()
    ground.accept("there", session_id=session)

    assert not has_waiting_prompts(held.session_id)
    assert has_waiting_prompts(session)


def test_a_running_turn_takes_in_prompts_and_no_other_runs(ground: Ground) -> None:
    held = ground.start()
    say(held, "words")
    write(lambda tx: accept_summary(tx, ground.workspace_id, ground.session_id))
    ground.accept("a child's task", kind=RunKind.AGENT)
    assert not has_waiting_prompts(ground.session_id)

    ground.accept("more")

    assert has_waiting_prompts(ground.session_id)


def test_a_prompt_that_runs_waits_no_more(ground: Ground) -> None:
    ground.start()
    assert not has_waiting_prompts(ground.session_id)


# -- what a worker holds


def test_a_claim_holds_its_own_run_alone(ground: Ground) -> None:
    first = ground.start()
    second = ground.start(session_id=ground.new_session())
    step(second, releases=True)

    assert first.fence == second.fence
    assert is_held(first.key, first.fence)
    assert not is_held(second.key, second.fence)


def test_the_cancel_of_the_only_run_reaches_its_worker(ground: Ground) -> None:
    held = ground.start()
    write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id))
    assert cancelled_of("worker") == [(held.key, held.fence)]


def test_a_cancel_reaches_no_run_that_was_accepted_after_it(ground: Ground) -> None:
    write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id))
    ground.start()
    assert cancelled_of("worker") == []


def test_a_cancel_reaches_the_worker_that_holds_the_run_and_no_other(ground: Ground) -> None:
    mine = ground.start()
    session = ground.new_session()
    key = ground.accept(session_id=session)
    theirs = begin(held_by(key, *claim("another")))
    for cancelled in (ground.session_id, session):
        write(lambda tx, found=cancelled: cancel_session(tx, ground.workspace_id, found))

    assert cancelled_of("worker") == [(mine.key, mine.fence)]
    assert cancelled_of("another") == [(theirs.key, theirs.fence)]


def test_a_run_of_a_client_that_left_is_cancelled_with_its_worker_until_it_ends(
    ground: Ground,
) -> None:
    held = ground.start(run_id="r", client_id="c")
    assert write(lambda tx: withdraw_runs(tx, "c")) == [held.key]
    assert cancelled_of("worker") == [(held.key, held.fence)]

    end(held, RunOutcome.CANCELLED)

    assert cancelled_of("worker") == []


def test_the_runs_of_a_lost_worker_are_listed_with_their_workspaces(
    ground: Ground, other: Ground
) -> None:
    there, here = other.accept(), ground.accept()
    kept = ground.accept(session_id=ground.new_session())
    claim("lost", limit=2)
    claim("live")
    assert lost_runs(10**14) == []

    lose("lost")

    assert lost_runs(now_ms()) == [
        (there, other.workspace_id, "lost"),
        (here, ground.workspace_id, "lost"),
    ]
    assert run_of(kept).worker == "live"


def test_a_run_of_a_worker_that_does_not_register_is_lost_when_its_lease_ends(
    ground: Ground,
) -> None:
    """The release before this one has such workers, also while this one runs."""
    key = ground.accept()
    Run.objects.filter(pk=key).update(state="running", worker="earlier", lease_expires_at=1000)
    assert lost_runs(1000) == []
    assert lost_runs(1001) == [(key, ground.workspace_id, "earlier")]


def test_a_process_is_late_when_it_should_have_renewed_its_registration(ground: Ground) -> None:
    for name in ("own", "late", "lost"):
        register_worker(name)
    lose("lost")
    until = RegisteredProcess.objects.get(pk="late").expires_at
    assert late_processes(until, apart_from="own") == []
    assert late_processes(until + 1, apart_from="own") == [("late", until)]


def test_a_lost_process_is_released_when_it_holds_no_run(ground: Ground) -> None:
    held = ground.start()
    register_worker("live")
    assert released_processes() == []
    lose()
    assert released_processes() == []
    write(lambda tx: rescue_run(tx, held.key, worker="worker"))
    assert released_processes() == ["worker"]


def test_a_worker_learns_which_runs_it_holds(ground: Ground) -> None:
    kept, lost = ground.start(), ground.start(session_id=ground.new_session())
    write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id))
    assert held_runs("worker") == [(kept.key, kept.fence, True), (lost.key, lost.fence, False)]
    write(lambda tx: rescue_run(tx, lost.key, worker="worker"))
    assert held_runs("worker") == [(kept.key, kept.fence, True)]


def test_a_workspace_is_not_busy_with_the_runs_of_another(ground: Ground, other: Ground) -> None:
    there = other.accept()
    assert busy_ids(ground) == []
    assert busy_ids(ground, "c") == []
    attach(ground, "second")
    assert busy_ids(ground) == []
    assert busy_ids(ground, "c") == []  # though the same client sent the one there

    end(begin(held_by(there, *claim())))
    assert busy_ids(other) == []


def test_a_client_that_looks_at_a_session_elsewhere_is_busy_with_its_own_prompts(
    ground: Ground, other: Ground
) -> None:
    """What it looks at in another workspace is no business of this one."""
    ClientClaim.objects.filter(workspace_id=other.workspace_id).update(
        current_session_id=other.session_id
    )
    ground.accept(client_id="c")
    other.accept(client_id="c")

    assert busy_ids(ground, "c") == [ground.session_id]
    assert busy_ids(ground) == [ground.session_id]


def test_a_session_is_busy_once_however_many_prompts_wait(ground: Ground) -> None:
    ground.start()
    ground.accept("behind")
    assert busy_ids(ground) == [ground.session_id]


def test_a_client_that_is_not_attached_is_busy_with_its_own_prompts_alone(ground: Ground) -> None:
    """The only attached client is another one: its prompts are not this one's."""
    ground.accept(client_id="c")
    assert busy_ids(ground, "stranger") == []

    prompt = Prompt(ground.new_session(), "go")
    write(lambda tx: accept_prompt(tx, ground.workspace_id, prompt, client_id="stranger"))

    assert busy_ids(ground, "stranger") == [prompt.session_id]


def test_the_only_client_is_not_busy_with_what_another_sent_and_left(ground: Ground) -> None:
    ground.accept(client_id="gone")
    assert busy_ids(ground) == []
    attach(ground, "second")
    assert busy_ids(ground) == [ground.session_id]  # nobody knows which of the two asks


def test_without_clients_every_busy_session_is_listed(ground: Ground) -> None:
    sessions = [ground.session_id, ground.new_session()]
    for session_id in sessions:
        ground.accept(session_id=session_id)
    ClientClaim.objects.all().delete()

    assert sorted(busy_ids(ground)) == sorted(sessions)
