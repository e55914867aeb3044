"""Carries out the approval policy: notifies about requests that wait too long, and denies them.

Each change is one conditional statement on a row, so exactly one process makes it.
"""

from __future__ import annotations

from django.db.models import Q

from permissions.actions.policies import POLICY_AUTHOR, policy_of
from permissions.actions.questions import dismiss_batch
from permissions.actions.requests import AnswerOptions, answer_request
from permissions.models import BatchState, Grant, PermissionRequest, QuestionBatch
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind

AT_ONCE = 100  # rows in one transaction; the next pass takes the others


def overdue_workspaces(now: int) -> list[str]:
    """Returns the workspaces with requests or questions whose time is over. Synchronous."""
    found: set[str] = set()
    for model in (PermissionRequest, QuestionBatch):
        for condition in (_to_deny(now), _to_notify(now)):
            found |= set(model.objects.filter(condition).values_list("workspace_id", flat=True))
    return sorted(found)


def deny_overdue(tx: Transaction, workspace_id: str) -> list[int]:
    """Denies requests and dismisses questions; returns the keys of the runs that may resume."""
    tx.lock(workspace_id)
    seconds = policy_of(workspace_id).deny_after_seconds
    reason = f"There was no answer within {seconds} s. The policy of this workspace then denies."
    options = AnswerOptions(reason=reason)
    due = _to_deny(tx.now) & Q(workspace_id=workspace_id)
    resumed = [
        request.run_key
        for request in PermissionRequest.objects.filter(due)[:AT_ONCE]
        if answer_request(tx, request, granted=False, options=options, author=POLICY_AUTHOR)
    ]
    resumed += [
        batch.run_key
        for batch in QuestionBatch.objects.filter(due)[:AT_ONCE]
        if dismiss_batch(tx, batch, author=POLICY_AUTHOR)
    ]
    return resumed


def notify_overdue(tx: Transaction, workspace_id: str) -> int:
    """Marks the requests and questions for which a notification is due, once each.

    ``notified_at`` and the event are written in one transaction: what delivers notifications adds
    its rows here.
    """
    tx.lock(workspace_id)
    count = 0
    due = _to_notify(tx.now) & Q(workspace_id=workspace_id)
    for request in PermissionRequest.objects.filter(due)[:AT_ONCE]:
        waits = {"request_id": request.pk, "tool_call_id": request.tool_call_id}
        count += _notify(tx, request, Kind.PERMISSION_OVERDUE, waits)
    for batch in QuestionBatch.objects.filter(due)[:AT_ONCE]:
        waits = {"batch_id": batch.pk, "tool_call_id": batch.tool_call_id}
        count += _notify(tx, batch, Kind.QUESTION_OVERDUE, waits)
    return count


def has_expired_grants(now: int) -> bool:
    """Whether rows of expired grants can be removed. Synchronous."""
    return Grant.objects.filter(expires_at__isnull=False, expires_at__lte=now).exists()


def _notify(
    tx: Transaction, row: PermissionRequest | QuestionBatch, kind: Kind, waits: dict[str, str]
) -> int:
    model = type(row)
    won = model.objects.filter(_to_notify(tx.now), pk=row.pk).update(notified_at=tx.now)
    if won:
        waits["session_id"] = row.session_id
        data = {**waits, "waiting_seconds": (tx.now - row.asked_at) // 1000}
        tx.append(row.workspace_id, kind, data, session_id=row.session_id)
    return won


def _to_deny(now: int) -> Q:
    return Q(state=BatchState.PENDING, deny_at__isnull=False, deny_at__lte=now)


def _to_notify(now: int) -> Q:
    return Q(
        state=BatchState.PENDING,
        notify_at__isnull=False,
        notified_at__isnull=True,
        notify_at__lte=now,
    )
