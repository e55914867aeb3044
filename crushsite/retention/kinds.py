"""The kinds of old rows: which there are, how many, and the transactions that delete them.

Synchronous: call it in a reading thread, except for the jobs, which the writer runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Any

from django.contrib.sessions.models import Session as SignIn
from django.db.models import Min, Model, Q, QuerySet

from agents.models import Run, RunStep
from agents.runs.finish import delete_if_marked
from agents.states import ACTIVE, RunState
from notifications.models import DeliveryState, Notice, Subject
from people.models import AuditEntry, BrowserSession, LoginLink, Token
from permissions.models import BatchState, PermissionRequest, QuestionBatch, RequestState
from workspaces.actions.old_events import count_old_events, delete_old_events
from workspaces.log.transaction import Transaction
from workspaces.models import Event, IdempotencyKey, RetiredClient, Session, Workspace
from workspaces.rest.idempotency import KEPT_MS

BATCH = 500  # rows in one transaction
DAY_MS = 86_400_000


class RetentionKind(StrEnum):
    EVENTS = "events"
    STEPS = "steps"
    NOTICES = "notices"
    EXPIRED = "expired"
    AUDIT = "audit"
    SESSIONS = "sessions"


# Younger ones still prevent that a notification or a request is repeated.
LEAST_DAYS: Mapping[RetentionKind, int] = {RetentionKind.NOTICES: 1, RetentionKind.EXPIRED: 1}
# These belong to no workspace.
WITHOUT_WORKSPACE = frozenset({RetentionKind.EXPIRED})


@dataclass(frozen=True, slots=True)
class Batch:
    """One transaction. ``job`` deletes, and returns how many rows."""

    workspace_id: str
    job: Callable[[Transaction], int]


def count_old(kind: RetentionKind, *, before: int, workspace_id: str | None = None) -> int:
    """Returns how many rows are older than a time in milliseconds."""
    if kind is RetentionKind.EVENTS:
        logs = _logs(before, workspace_id)
        return sum(count_old_events(log, before=limit) for log, limit in logs)
    return sum(rows.count() for rows in _ROWS[kind](before, workspace_id))


def old_batches(
    kind: RetentionKind, *, before: int, workspace_id: str | None = None
) -> Iterator[Batch]:
    """Yields the transactions that delete them; each must be done before the next is requested."""
    if kind is RetentionKind.EVENTS:
        yield from _batches_of_events(before, workspace_id)
    elif kind is RetentionKind.SESSIONS:
        yield from _batches_of_sessions(before, workspace_id)
    else:
        for rows in _ROWS[kind](before, workspace_id):
            yield from _batches_of_rows(rows)


# -- events


def _logs(before: int, workspace_id: str | None) -> list[tuple[str, int]]:
    """Returns the workspaces, each with the time before which its events are old."""
    # Readers may need all events of a run that is at work.
    active = Run.objects.filter(state__in=ACTIVE).values_list("workspace_id")
    begun = dict(active.annotate(Min("accepted_at")).order_by())
    workspaces = Workspace.objects.order_by("pk").values_list("pk", flat=True)
    if workspace_id is not None:
        workspaces = workspaces.filter(pk=workspace_id)
    return [(each, min(before, begun.get(each, before))) for each in workspaces]


def _batches_of_events(before: int, workspace_id: str | None) -> Iterator[Batch]:
    for log, limit in _logs(before, workspace_id):
        job = partial(delete_old_events, workspace_id=log, before=limit, limit=BATCH)
        while _has_old_events(log, limit):
            yield Batch(log, job)


def _has_old_events(workspace_id: str, before: int) -> bool:
    first = Workspace.objects.filter(pk=workspace_id).values("first_event")
    return Event.objects.filter(
        workspace_id=workspace_id, number__in=first, created_at__lt=before
    ).exists()


# -- sessions


def _old_sessions(before: int, workspace_id: str | None) -> list[QuerySet[Any]]:
    rows = Session.objects.filter(
        is_deleting=False,
        parent_session_id="",
        is_busy=False,
        pinned_at__isnull=True,
        updated_at__lt=before,
    )
    return [_of_workspace(rows, workspace_id)]


def _batches_of_sessions(before: int, workspace_id: str | None) -> Iterator[Batch]:
    (rows,) = _old_sessions(before, workspace_id)
    for session_id, workspace in list(rows.order_by("pk").values_list("pk", "workspace_id")):
        yield Batch(workspace, partial(_delete_session, session_id, workspace, before))


def _delete_session(session_id: str, workspace_id: str, before: int, tx: Transaction) -> int:
    (rows,) = _old_sessions(before, workspace_id)
    is_old = rows.filter(pk=session_id).update(is_deleting=True)
    if is_old:
        delete_if_marked(tx, workspace_id, session_id)
    return is_old


# -- plain rows


def _steps(before: int, workspace_id: str | None) -> list[QuerySet[Any]]:
    unfinished = Run.objects.exclude(state=RunState.FINISHED).values("pk")
    rows = RunStep.objects.filter(ended_at__lt=before).exclude(run_key__in=unfinished)
    if workspace_id is not None:
        of_workspace = Run.objects.filter(workspace_id=workspace_id).values("pk")
        rows = rows.filter(run_key__in=of_workspace)
    return [rows]


def _notices(before: int, workspace_id: str | None) -> list[QuerySet[Any]]:
    requests = PermissionRequest.objects.filter(state=RequestState.PENDING).values("pk")
    batches = QuestionBatch.objects.filter(state=BatchState.PENDING).values("pk")
    rows = (
        Notice.objects.filter(created_at__lt=before)
        .exclude(subject=Subject.PERMISSION, subject_id__in=requests)
        .exclude(subject=Subject.QUESTION, subject_id__in=batches)
        .exclude(deliveries__state=DeliveryState.PENDING)
    )
    return [_of_workspace(rows, workspace_id)]


def _expired(before: int, _: str | None) -> list[QuerySet[Any]]:
    sign_ins = SignIn.objects.filter(expire_date__lt=datetime.fromtimestamp(before / 1000, UTC))
    live = SignIn.objects.exclude(pk__in=sign_ins.values("pk")).values("pk")
    return [
        Token.objects.filter(Q(expires_at__lt=before) | Q(revoked_at__lt=before)),
        LoginLink.objects.filter(expires_at__lt=before),
        BrowserSession.objects.filter(created_at__lt=before).exclude(session_key__in=live),
        sign_ins,
        IdempotencyKey.objects.filter(created_at__lt=before - KEPT_MS),
        RetiredClient.objects.filter(retired_at__lt=before),
    ]


def _audit(before: int, workspace_id: str | None) -> list[QuerySet[Any]]:
    return [_of_workspace(AuditEntry.objects.filter(at__lt=before), workspace_id)]


def _of_workspace(rows: QuerySet[Any], workspace_id: str | None) -> QuerySet[Any]:
    return rows if workspace_id is None else rows.filter(workspace_id=workspace_id)


_ROWS: Mapping[RetentionKind, Callable[[int, str | None], list[QuerySet[Any]]]] = {
    RetentionKind.STEPS: _steps,
    RetentionKind.NOTICES: _notices,
    RetentionKind.EXPIRED: _expired,
    RetentionKind.AUDIT: _audit,
    RetentionKind.SESSIONS: _old_sessions,
}


def _batches_of_rows(rows: QuerySet[Any]) -> Iterator[Batch]:
    ordered = rows.order_by("pk").values_list("pk", flat=True)
    keys = list(ordered[:BATCH])
    while keys:
        yield Batch("", partial(_delete_rows, rows.model, keys))
        keys = list(ordered.filter(pk__gt=keys[-1])[:BATCH])


def _delete_rows(model: type[Model], keys: list[Any], _: Transaction) -> int:
    _total, by_model = model._default_manager.filter(pk__in=keys).delete()
    return by_model.get(model._meta.label, 0)
