"""Deletes the oldest events of a workspace's log. The others keep their numbers.

A reader that needs a deleted event gets ``CursorExpired`` and reads a snapshot instead.
"""

from __future__ import annotations

from django.db.models import Min

from workspaces.log.transaction import Transaction
from workspaces.models import Event, Workspace


def delete_old_events(tx: Transaction, workspace_id: str, *, before: int, limit: int) -> int:
    """Deletes at most ``limit`` events that were stored before a time; returns how many.

    Stops at the first younger event, so the log stays without gaps. Raises ``WorkspaceUnknown``.
    """
    tx.lock(workspace_id)
    first = Workspace.objects.values_list("first_event", flat=True).get(pk=workspace_id)
    log = Event.objects.filter(workspace_id=workspace_id, number__gte=first)
    numbers = []
    for number, created_at in log.order_by("number").values_list("number", "created_at")[:limit]:
        if created_at >= before:
            break
        numbers.append(number)
    if numbers:
        log.filter(number__lte=numbers[-1]).delete()
        Workspace.objects.filter(pk=workspace_id).update(first_event=numbers[-1] + 1)
    return len(numbers)


def count_old_events(workspace_id: str, *, before: int) -> int:
    """Returns how many events ``delete_old_events`` would delete."""
    log = Event.objects.filter(workspace_id=workspace_id)
    kept = log.filter(created_at__gte=before).aggregate(first=Min("number"))["first"]
    return (log if kept is None else log.filter(number__lt=kept)).count()
