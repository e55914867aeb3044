"""Finds what users are to be notified about, and delivers the messages.

Every worker does this. What is to be noticed is found in stored rows: requests whose time is over,
and runs that have ended. A notice is created once, by a constraint of the database; a delivery is
claimed by one conditional statement for the time of an attempt. Nobody is notified who is looking
at the session, nor about a request that was answered meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from notifications.ends import end_message, has_unnoticed_ends, notice_ends
from notifications.links import link_of
from notifications.messages import NotificationMessage
from notifications.models import (
    ChannelKind,
    Delivery,
    DeliveryState,
    Notice,
    NotificationChannel,
    Subject,
)
from notifications.recipients import channels_for_request
from notifications.senders import SEND_SECONDS, Sent, open_target, send
from permissions.models import BatchState, PermissionRequest, QuestionBatch
from workspaces.backoff import pause_after
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import Session, Workspace

AT_ONCE = 20  # deliveries of one pass
ATTEMPTS = 8
FIRST_SECONDS, LONGEST_SECONDS = 10.0, 3600.0
# Failures in a row after which a channel is disabled.
DISABLED_AFTER = 5 * ATTEMPTS
CLAIM_MS = int(SEND_SECONDS * 2 * 1000)
LINK_MS = 24 * 3600 * 1000
NOTICES_AT_ONCE = 50

_MODELS: dict[Subject, type[PermissionRequest] | type[QuestionBatch]] = {
    Subject.PERMISSION: PermissionRequest,
    Subject.QUESTION: QuestionBatch,
}


async def notify(base_url: Callable[[], str]) -> None:
    """One pass: creates notices that are due, then carries out deliveries that are due.

    ``base_url``: where browsers reach this server; empty if it is unknown.
    """
    if await read(_has_unnoticed):
        await writer.write("", create_notices)
    for _ in range(AT_ONCE):
        due = await read(_due_ids, now_ms())
        if not due:
            return
        claimed = await writer.write("", partial(claim_due, ids=due))
        await asyncio.gather(*(_deliver(one, base_url()) for one in claimed))


# -- notices


def _unnoticed(subject: Subject) -> Iterable[PermissionRequest | QuestionBatch]:
    """Returns the open requests whose time is over, and for which there is no notice."""
    rows = _MODELS[subject].objects.filter(state=BatchState.PENDING, notified_at__isnull=False)
    noticed = Notice.objects.filter(subject=subject).values("subject_id")
    return rows.exclude(pk__in=noticed).select_related("session")[:NOTICES_AT_ONCE]


def _has_unnoticed() -> bool:
    if has_unnoticed_ends():
        return True
    return NotificationChannel.objects.filter(is_enabled=True).exists() and any(
        _unnoticed(subject) for subject in _MODELS
    )


def create_notices(tx: Transaction) -> int:
    """Creates the notices and deliveries that are due; returns the number of deliveries."""
    count = 0
    for subject in _MODELS:
        for row in _unnoticed(subject):
            notice, is_new = Notice.objects.get_or_create(
                subject=subject,
                subject_id=row.pk,
                defaults={
                    "workspace_id": row.workspace_id,
                    "session_id": row.session_id,
                    "created_at": tx.now,
                },
            )
            if is_new:
                channels = channels_for_request(row.workspace_id, row.session_id)
                count += _create_deliveries(tx, notice, channels)
    return count + sum(_create_deliveries(tx, *found) for found in notice_ends(tx))


def _create_deliveries(
    tx: Transaction, notice: Notice, channels: Sequence[NotificationChannel]
) -> int:
    Delivery.objects.bulk_create(
        Delivery(
            notice=notice,
            channel=channel,
            due_at=tx.now,
            created_at=tx.now,
            link_expires_at=tx.now + LINK_MS,
        )
        for channel in channels
    )
    return len(channels)


# -- deliveries


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    id: str
    channel_id: str
    kind: str
    target: dict[str, Any]
    attempts: int
    message: NotificationMessage


def _due_ids(now: int) -> list[str]:
    due = Delivery.objects.filter(state=DeliveryState.PENDING, due_at__lte=now)
    return list(due.order_by("due_at").values_list("pk", flat=True)[:AT_ONCE])


def claim_due(tx: Transaction, ids: Iterable[str]) -> list[ClaimedDelivery]:
    """Claims deliveries for one attempt; returns those that no other process has claimed."""
    claimed = []
    for pk in ids:
        due = Delivery.objects.filter(pk=pk, state=DeliveryState.PENDING, due_at__lte=tx.now)
        if not due.update(due_at=tx.now + CLAIM_MS):
            continue
        row = Delivery.objects.select_related("notice", "channel__user").get(pk=pk)
        message = _message(row, tx.now)
        if message is None:
            _finish(row.pk, DeliveryState.OBSOLETE, tx.now)
            continue
        target = open_target(row.channel.sealed_target)
        if row.channel.kind == ChannelKind.EMAIL:
            target["address"] = row.channel.user.email
        claimed.append(
            ClaimedDelivery(row.pk, row.channel_id, row.channel.kind, target, row.attempts, message)
        )
    return claimed


def _message(row: Delivery, now: int) -> NotificationMessage | None:
    """Returns the message of a delivery; ``None`` once its request is answered or deleted."""
    notice = row.notice
    subject = Subject(notice.subject)
    message = NotificationMessage(row.pk, "test", notice.workspace_id, session_id=notice.session_id)
    if subject is Subject.TEST:
        return message
    if subject is Subject.RUN:
        return end_message(message, notice.subject_id)
    found = _MODELS[subject].objects.filter(pk=notice.subject_id).first()
    if found is None or found.state != BatchState.PENDING:
        return None
    if isinstance(found, PermissionRequest):
        summary, path = f"{found.tool_name}: {found.action}", found.path
    else:
        count = len(found.questions)
        summary, path = f"{count} question{'s' * (count != 1)}", ""
    workspace = Workspace.objects.filter(pk=notice.workspace_id).values_list("path", flat=True)
    session = Session.objects.filter(pk=notice.session_id).values_list("title", flat=True)
    return replace(
        message,
        type=f"{subject}.overdue",
        workspace=workspace.first() or "",
        session=session.first() or "",
        request_id=found.pk,
        summary=summary,
        path=path,
        waiting_seconds=(now - found.asked_at) // 1000,
    )


async def _deliver(claimed: ClaimedDelivery, base_url: str) -> None:
    message = claimed.message
    if message.type != "test":
        message = link_of(message, base_url)
    sent = await send(claimed.kind, claimed.target, message)
    await writer.write("", lambda tx: store_attempt(tx, claimed, sent))


def store_attempt(tx: Transaction, claimed: ClaimedDelivery, sent: Sent) -> None:
    """Stores the outcome of an attempt, and when the next one is due."""
    attempts = claimed.attempts + 1
    facts = {"attempts": attempts, "status_code": sent.status, "error": sent.error[:300]}
    rows = Delivery.objects.filter(pk=claimed.id, state=DeliveryState.PENDING)
    channel = NotificationChannel.objects.filter(pk=claimed.channel_id).first()
    if channel is None:
        return  # deleted meanwhile, with its deliveries
    if sent.is_delivered:
        rows.update(**facts, state=DeliveryState.SENT, finished_at=tx.now)
        channel.failures, channel.last_error, channel.last_sent_at = 0, "", tx.now
    else:
        channel.failures += 1
        channel.last_error = sent.error[:300]
        if sent.is_gone or attempts >= ATTEMPTS:
            rows.update(**facts, state=DeliveryState.FAILED, finished_at=tx.now)
        else:
            pause = pause_after(
                attempts, first_seconds=FIRST_SECONDS, limit_seconds=LONGEST_SECONDS
            )
            rows.update(**facts, due_at=tx.now + int(pause * 1000))
        if sent.is_gone or channel.failures >= DISABLED_AFTER:
            channel.is_enabled = False
    channel.save(update_fields=["failures", "last_error", "last_sent_at", "is_enabled"])


def _finish(delivery_id: str, state: DeliveryState, now: int) -> None:
    Delivery.objects.filter(pk=delivery_id, state=DeliveryState.PENDING).update(
        state=state, finished_at=now
    )
