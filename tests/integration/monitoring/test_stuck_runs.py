"""Which runs count as stuck, and why, on both databases."""

from io import StringIO
from typing import Any

import orjson
import pytest
from django.core.management import call_command

from agents.models import Run
from agents.stuck_runs import STALLED_MS, WAIT_MS, stuck_runs
from permissions.models import PermissionRequest
from workspaces.log.timestamps import now_ms
from workspaces.models import Message, Rewind, Session, Workspace

LONG_AGO = 2 * STALLED_MS


@pytest.fixture
def workspace(database: str) -> Workspace:
    return Workspace.objects.create(path="/project", data_dir="/project/.crush")


def add_run(workspace: Workspace, session: Session | None = None, **values: Any) -> Run:
    session = session or Session.objects.create(workspace=workspace)
    number = Run.objects.filter(session=session).count() + 1
    defaults = {"accept_number": number, "accepted_at": now_ms() - LONG_AGO}
    return Run.objects.create(workspace=workspace, session=session, **{**defaults, **values})


def add_request(run: Run, **values: Any) -> None:
    PermissionRequest.objects.create(
        workspace_id=run.workspace_id,
        session_id=run.session_id,
        run_key=run.pk,
        tool_call_id="c",
        tool_name="bash",
        action="execute",
        path="/project",
        **values,
    )


def found() -> dict[int, str]:
    return {run.key: run.reason for run in stuck_runs(now_ms())}


def running(workspace: Workspace, *, lease_ms: int = 10_000, **values: Any) -> Run:
    now = now_ms()
    held = {"worker": "w1", "lease_expires_at": now + lease_ms, "started_at": now - LONG_AGO}
    return add_run(workspace, state="running", **{**held, **values})


def add_message(run: Run, age_ms: int) -> None:
    Message.objects.create(
        workspace_id=run.workspace_id,
        session_id=run.session_id,
        role="assistant",
        parts="[]",
        position=1,
        created_at=now_ms() - age_ms,
        updated_at=now_ms() - age_ms,
    )


def test_a_run_whose_lease_has_expired_is_stuck(workspace: Workspace) -> None:
    run = running(workspace, lease_ms=-20_000)
    (stuck,) = stuck_runs(now_ms())
    assert (stuck.key, stuck.worker, stuck.path) == (run.pk, "w1", "/project")
    assert "its worker does not renew its registration" in stuck.reason
    assert 19_000 < now_ms() - stuck.since < 80_000


def test_a_run_that_no_worker_claims_is_stuck_and_those_behind_it_are_not(
    workspace: Workspace,
) -> None:
    first = add_run(workspace)
    add_run(workspace, first.session)
    add_run(workspace, accepted_at=now_ms() - WAIT_MS // 2)
    ready = add_run(workspace, state="ready")
    reasons = found()
    assert set(reasons) == {first.pk, ready.pk}
    assert all("no worker claims it" in reason for reason in reasons.values())


def test_a_run_that_waits_because_of_a_limit_is_not_stuck(
    workspace: Workspace, settings: Any
) -> None:
    settings.CRUSH_MAX_RUNNING_PER_USER = 1
    ann, bob = {"user_id": "1"}, {"user_id": "2"}
    running(workspace, author=ann, started_at=now_ms())
    limited = add_run(workspace, author=ann)
    other = add_run(workspace, author=bob)
    remote = Workspace.objects.create(path="away:project", data_dir="")
    unserved = add_run(remote, author=ann)
    assert set(found()) == {other.pk, unserved.pk}
    assert at_limits_in_ps() == 2
    settings.CRUSH_MAX_RUNNING_PER_USER = 2
    assert set(found()) == {other.pk, unserved.pk, limited.pk}
    assert at_limits_in_ps() == 0


def at_limits_in_ps() -> int:
    out = StringIO()
    call_command("ps", json=True, stdout=out)
    return int(orjson.loads(out.getvalue())["at_limits"])


def test_a_run_that_was_answered_a_moment_ago_is_not_stuck(workspace: Workspace) -> None:
    run = add_run(workspace, state="ready")
    add_request(run, state="allowed", answered_at=now_ms() - 100)
    assert found() == {}


def test_a_run_behind_an_unfinished_rewind_names_it(workspace: Workspace) -> None:
    run = add_run(workspace)
    Rewind.objects.create(
        workspace=workspace,
        session=run.session,
        state="applying",
        first_position=1,
        last_position=2,
    )
    assert "rewind" in found()[run.pk]


def test_a_parked_run_is_stuck_only_if_it_waits_for_nothing(workspace: Workspace) -> None:
    waiting = add_run(workspace, state="parked")
    add_request(waiting)
    parent = add_run(workspace, state="parked")
    child = running(workspace, parent=parent, started_at=now_ms())
    answered = add_run(workspace, state="parked")
    add_request(answered, state="allowed", answered_at=now_ms())
    reasons = found()
    assert set(reasons) == {answered.pk}
    assert "no request, question or child run" in reasons[answered.pk]
    Run.objects.filter(pk=child.pk).update(state="finished")
    assert set(found()) == {answered.pk, parent.pk}


def test_a_running_run_is_stuck_if_it_has_stored_nothing_for_long(workspace: Workspace) -> None:
    silent = running(workspace)
    add_message(silent, LONG_AGO)
    calling = running(workspace, open_calls='["c1"]')
    streaming = running(workspace)
    add_message(streaming, 200)
    running(workspace, started_at=now_ms())
    reasons = found()
    assert set(reasons) == {silent.pk, calling.pk}
    assert "model" in reasons[silent.pk]
    assert "tool call" in reasons[calling.pk]
