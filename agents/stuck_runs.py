"""Runs that do not proceed, with the reason, from what the database has.

A run that waits for people, for its turn in a session, for its child runs or because of a limit of
running runs is not stuck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet, Subquery

from agents.models import Run, RunStep
from agents.runs.claims.claim_order import runs_at_limits
from agents.runs.prompting.remote_workers import connected_workers
from agents.states import CLAIMABLE, IN_PROGRESS, RunState
from permissions.models import BatchState, PermissionRequest, QuestionBatch, RequestState
from workspaces.models import UNFINISHED_REWINDS, Message, RegisteredProcess, Rewind, Workspace
from workspaces.placement.remote_place import remote_place
from workspaces.placement.roots import labels_in, why_unserved
from workspaces.queries.processes import (
    bound_homes,
    known_roots,
    silent_processes,
    worker_offers,
)

WAIT_MS = 10_000  # workers look for runs each second
STALLED_MS = 600_000  # a request to a model without any data is repeated after two minutes
SHOWN = 100
NO_WORKER = "no worker claims it: none runs, or all of them have as many runs as they may"
AT_HOME = "its workspace has its home in the {}, which has as many runs as it may, or hangs"
_IS_ALL = Q(pk__isnull=False)


@dataclass(frozen=True, slots=True)
class StuckRun:
    key: int
    workspace_id: str
    path: str
    session_id: str
    state: str
    worker: str
    since: int  # milliseconds
    reason: str


def stuck_runs(now: int, *, is_served: bool = True) -> list[StuckRun]:
    """Returns the stuck runs, those that do not proceed for the longest time first.

    ``is_served``: False if the only server of this data has ended.
    """
    abandoned = _IS_ALL if not is_served else _is_abandoned(now)
    found = [
        *_abandoned(now, abandoned),
        *islice(_unclaimed(now), SHOWN),
        *_parked_for_nothing(),
        *_silent(now, abandoned),
    ]
    return sorted(found, key=lambda run: run.since)[:SHOWN]


def _abandoned(now: int, abandoned: Q) -> Iterator[StuckRun]:
    expired = silent_processes(now).filter(pk=OuterRef("worker")).values("expires_at")
    runs = _runs(RunState.RUNNING).filter(abandoned)
    runs = runs.annotate(registered_until=Subquery(expired))
    for run in runs.order_by("registered_until", "lease_expires_at")[:SHOWN]:
        reason = "its worker does not renew its registration, and no other worker has taken it over"
        moments = (run.registered_until, run.lease_expires_at, run.started_at, run.accepted_at)
        yield _stuck(run, next(at for at in moments if at and at < now), reason)


def _is_abandoned(now: int) -> Q:
    """Of running runs: their worker's registration is lost, or their own lease has expired."""
    return Q(lease_expires_at__lt=now) | Q(worker__in=silent_processes(now).values("pk"))


def _unclaimed(now: int) -> Iterator[StuckRun]:
    before = Run.objects.filter(session_id=OuterRef("session_id")).filter(
        Q(state__in=_values(IN_PROGRESS))
        | Q(state=RunState.ACCEPTED, accept_number__lt=OuterRef("accept_number"))
    )
    rewind = Rewind.objects.filter(
        session_id=OuterRef("session_id"), state__in=_values(UNFINISHED_REWINDS)
    )
    ended = RunStep.objects.filter(run_key=OuterRef("pk")).order_by()
    requests = PermissionRequest.objects.filter(run_key=OuterRef("pk")).order_by()
    batches = QuestionBatch.objects.filter(run_key=OuterRef("pk")).order_by()
    children = Run.objects.filter(parent_id=OuterRef("pk")).order_by()
    runs = (
        Run.objects.filter(state__in=_values(CLAIMABLE), accepted_at__lt=now - WAIT_MS)
        .filter(Q(state=RunState.READY) | ~Exists(before))
        .annotate(
            has_rewind=Exists(rewind),
            step_at=_newest(ended, "run_key", "ended_at"),
            allowed_at=_newest(requests, "run_key", "answered_at"),
            answered_at=_newest(batches, "run_key", "answered_at"),
            child_at=_newest(children, "parent_id", "finished_at"),
        )
    )
    limited = runs_at_limits()
    unserved: Callable[[Workspace], str] | None = None  # it takes three queries
    homes: dict[str, RegisteredProcess] | None = None
    for run in runs.select_related("workspace").order_by("pk").iterator():
        moments = (run.step_at, run.allowed_at, run.answered_at, run.child_at, run.accepted_at)
        since = max(moment for moment in moments if moment is not None)
        if now - since < WAIT_MS:
            continue
        if run.has_rewind:
            reason = "a rewind of its session has not ended"
        else:
            unserved = unserved or why_workspaces_wait(now)
            if not (reason := unserved(run.workspace)) and run.pk in limited:
                continue
            if not reason:
                homes = bound_homes() if homes is None else homes
                home = homes.get(run.workspace_id)
                reason = AT_HOME.format(home) if home else NO_WORKER
        yield _stuck(run, since, reason)


def why_workspaces_wait(now: int) -> Callable[[Workspace], str]:
    """Returns a function that gives the reason why no live worker serves a workspace, if so."""
    roots, workers, remote = known_roots(), worker_offers(now), connected_workers(now)

    def unserved(workspace: Workspace) -> str:
        if (place := remote_place(workspace.path)) is not None:
            is_there = place.worker in remote
            return "" if is_there else f"the remote worker {place.worker} is not connected"
        needed = labels_in(workspace.labels)
        return why_unserved(workspace.path, needed, roots=roots, workers=workers)

    return unserved


def _newest(rows: QuerySet[Any], key: str, field: str) -> Subquery:
    return Subquery(rows.values(key).annotate(newest=Max(field)).values("newest"))


def _parked_for_nothing() -> Iterator[StuckRun]:
    requests = PermissionRequest.objects.filter(run_key=OuterRef("pk"), state=RequestState.PENDING)
    batches = QuestionBatch.objects.filter(run_key=OuterRef("pk"), state=BatchState.PENDING)
    children = Run.objects.filter(parent_id=OuterRef("pk")).exclude(state=RunState.FINISHED)
    runs = _runs(RunState.PARKED).filter(~Exists(requests), ~Exists(batches), ~Exists(children))
    for run in runs.order_by("pk")[:SHOWN]:
        reason = "it waits for an answer, but no request, question or child run of it is open"
        yield _stuck(run, run.started_at or run.accepted_at, reason)


def _silent(now: int, abandoned: Q) -> Iterator[StuckRun]:
    """Runs with a worker that have stored nothing for long. A long command does that, too."""
    messages = Message.objects.filter(session_id=OuterRef("session_id")).order_by()
    runs = (
        _runs(RunState.RUNNING)
        .filter(~abandoned, started_at__lt=now - STALLED_MS)
        .annotate(message_at=_newest(messages, "session_id", "updated_at"))
        .filter(Q(message_at=None) | Q(message_at__lt=now - STALLED_MS))
    )
    for run in runs.order_by(F("message_at").asc(nulls_first=True))[:SHOWN]:
        is_call = run.open_calls != "[]"
        reason = "a tool call has no result" if is_call else "its model sends nothing"
        yield _stuck(run, max(run.message_at or 0, run.started_at or 0), reason)


def _runs(state: RunState) -> QuerySet[Run]:
    return Run.objects.filter(state=state).select_related("workspace")


def _values(states: Any) -> list[str]:
    return [state.value for state in states]


def _stuck(run: Run, since: int, reason: str) -> StuckRun:
    return StuckRun(
        run.pk,
        run.workspace_id,
        run.workspace.path,
        run.session_id,
        run.state,
        run.worker,
        since,
        reason,
    )
