"""Finds the runs that have ended, makes notices of them, and describes how each has ended. Synchronous.

Only runs count whose prompt a person has sent: no tool of this server, and no run of a tool call.
"""

from __future__ import annotations

from dataclasses import replace

from django.db.models import QuerySet

from agents.models import Run
from agents.states import RunOutcome, RunState
from notifications.messages import RUN_FINISHED, NotificationMessage, RunEnd
from notifications.models import Ends, Notice, NotificationChannel, Subject
from notifications.recipients import audience_of, channels_for_end
from workspaces.access import Identity, Right
from workspaces.log.transaction import Transaction

ENDS_AT_ONCE = 50
LISTED = 20
# A transaction that was slow to commit may show an end later than others that are newer.
LATE_MS = 10_000


def _ended() -> QuerySet[Run]:
    return Run.objects.filter(state=RunState.FINISHED, is_from_person=True)


def _unnoticed() -> QuerySet[Run]:
    return _ended().filter(end_noticed_at__isnull=True)


def has_unnoticed_ends() -> bool:
    return _unnoticed().exists()


def notice_ends(tx: Transaction) -> list[tuple[Notice, list[NotificationChannel]]]:
    """Creates the notices that are due; returns them with the channels that get a message.

    Each end is noticed once, whatever process is first: what a run's end leads to is stored in the
    transaction that marks it.
    """
    subscribed = NotificationChannel.objects.filter(is_enabled=True).exclude(notify_ended=Ends.NONE)
    if not subscribed.exists():
        _unnoticed().update(end_noticed_at=tx.now)
        return []
    found = []
    for run in _unnoticed().order_by("pk")[:ENDS_AT_ONCE]:
        if not _unnoticed().filter(pk=run.pk).update(end_noticed_at=tx.now):
            continue
        if channels := channels_for_end(run):
            notice, is_new = Notice.objects.get_or_create(
                subject=Subject.RUN,
                subject_id=str(run.pk),
                defaults={
                    "workspace_id": run.workspace_id,
                    "session_id": run.session_id,
                    "created_at": tx.now,
                },
            )
            if is_new:
                found.append((notice, channels))
    return found


def end_message(message: NotificationMessage, run_key: str) -> NotificationMessage | None:
    """Returns the message with how the run has ended; ``None`` once it is deleted."""
    runs = _ended().filter(pk=int(run_key), session__is_deleting=False)
    run = runs.select_related("workspace", "session").first()
    return None if run is None else _filled(message, run)


def _filled(message: NotificationMessage, run: Run) -> NotificationMessage:
    canceller = run.cancelled_by if run.outcome == RunOutcome.CANCELLED else None
    return replace(
        message,
        type=RUN_FINISHED,
        workspace_id=run.workspace_id,
        workspace=run.workspace.path,
        session_id=run.session_id,
        session=run.session.title,
        end=RunEnd(
            run.pk,
            run.outcome,
            run_id=run.run_id,
            cancelled_by=str((canceller or {}).get("name") or ""),
            seconds=((run.finished_at or 0) - run.accepted_at) // 1000,
        ),
    )


def ends_since(
    identity: Identity, ends: str, *, after: int
) -> list[tuple[Run, NotificationMessage]]:
    """Returns the newest ends of which this user would be notified now, the newest first.

    Some are older than ``after``: a reader drops those that it knows.
    """
    user_id = identity.user_id
    recent = _ended().filter(end_noticed_at__gt=after - LATE_MS, session__is_deleting=False)
    found = []
    for run in recent.select_related("workspace", "session").order_by("-end_noticed_at", "-pk"):
        audience = audience_of(run)
        if (
            audience is not None
            and user_id is not None
            and audience.includes(user_id, ends)
            and identity.may(Right.READ, run.workspace_id)
        ):
            found.append((run, _filled(NotificationMessage("", RUN_FINISHED), run)))
            if len(found) == LISTED:
                break
    return found
