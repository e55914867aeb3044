"""Creates, changes and removes the channels of a user. Synchronous: call it in a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import User

from notifications.messages import new_secret
from notifications.models import (
    ChannelKind,
    Delivery,
    Ends,
    Notice,
    NotificationChannel,
    PushKey,
    Subject,
)
from notifications.senders import checked_address, seal_target
from people.actions.audit import Act, record
from workspaces.access import Actor
from workspaces.log.errors import BadField, Refusal
from workspaces.log.secrets import box
from workspaces.log.transaction import Transaction
from workspaces.models import Workspace

CHANNELS_LIMIT = 20  # of one user
KEY_CHARS = 200


class ChannelUnknown(Refusal):
    """You have no channel with this id."""

    code = "channel_unknown"
    status = 404


class NoMailServer(Refusal):
    """This server cannot send e-mail: set CRUSH_EMAIL_URL."""

    code = "no_mail_server"
    status = 409


class NoMailAddress(Refusal):
    """Your account has no e-mail address. An administrator can set it."""

    code = "no_mail_address"
    status = 409


class PushNotInstalled(Refusal):
    """Messages to browsers need the extra `push`: install crush-server[push]."""

    code = "push_not_installed"
    status = 409


@dataclass(frozen=True, slots=True)
class NewChannel:
    row: NotificationChannel
    secret: str = ""  # of a webhook; shown once


def create_channel(
    tx: Transaction,
    *,
    user: User,
    kind: ChannelKind,
    target: Mapping[str, str],
    workspace: Workspace | None = None,
    notify_waiting: bool = True,
    notify_ended: Ends = Ends.OWN,
    actor: Actor | None = None,
) -> NewChannel:
    """Raises ``BadField``, ``NoMailServer``, ``NoMailAddress`` or ``PushNotInstalled``."""
    if NotificationChannel.objects.filter(user=user).count() >= CHANNELS_LIMIT:
        raise BadField(f"channels: a user may have at most {CHANNELS_LIMIT}")
    _require_something(notify_waiting, notify_ended)
    secret = ""
    match kind:
        case ChannelKind.WEBHOOK:
            url = checked_address("url", target.get("url", ""))
            secret = new_secret()
            name, kept = urlsplit(url).netloc, {"url": url, "secret": secret}
        case ChannelKind.EMAIL:
            if not settings.CRUSH_EMAIL_URL:
                raise NoMailServer
            if not user.email:
                raise NoMailAddress
            # The account's address at the time of each message: users cannot name one.
            name, kept = "the account's address", {}
        case ChannelKind.WEB_PUSH:
            push_key(tx)
            kept = _subscription(target)
            name = urlsplit(kept["endpoint"]).netloc
    row = NotificationChannel.objects.create(
        user=user,
        kind=kind,
        workspace=workspace,
        name=name,
        sealed_target=seal_target(kept),
        notify_waiting=notify_waiting,
        notify_ended=notify_ended,
    )
    record(tx, actor, Act.CREATE_CHANNEL, workspace_id=_id(workspace), target=str(row))
    return NewChannel(row, secret)


def _subscription(target: Mapping[str, str]) -> dict[str, str]:
    kept = {"endpoint": checked_address("endpoint", target.get("endpoint", ""))}
    for field in ("p256dh", "auth"):
        kept[field] = target.get(field, "")
        if not 0 < len(kept[field]) <= KEY_CHARS or not kept[field].isascii():
            raise BadField(f"{field}: must be a key of the browser's subscription")
    return kept


def push_key(tx: Transaction) -> str:
    """Returns the key with which browsers subscribe; makes it at the first use.

    Raises ``PushNotInstalled``.
    """
    try:
        from py_vapid import Vapid02, b64urlencode  # noqa: PLC0415  an extra
    except ImportError:
        raise PushNotInstalled from None
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  only for this

    row = PushKey.objects.first()
    if row is None:
        key = Vapid02()
        key.generate_keys()
        public = key.public_key.public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        )
        row = PushKey.objects.create(
            sealed_key=box().seal(key.private_pem().decode()),
            public_key=b64urlencode(public),
            created_at=tx.now,
        )
    return row.public_key


def change_channel(
    tx: Transaction,
    channel_id: str,
    *,
    user_id: int,
    is_enabled: bool | None = None,
    notify_waiting: bool | None = None,
    notify_ended: Ends | None = None,
    actor: Actor,
) -> NotificationChannel:
    """Enables or disables a channel, and changes what it gets; ``None`` changes nothing.

    Raises ``ChannelUnknown`` and ``BadField``.
    """
    row = own_channel(channel_id, user_id)
    if is_enabled is not None:
        row.is_enabled, row.failures = is_enabled, 0
    if notify_waiting is not None:
        row.notify_waiting = notify_waiting
    if notify_ended is not None:
        row.notify_ended = notify_ended
    _require_something(row.notify_waiting, row.notify_ended)
    row.save(update_fields=["is_enabled", "failures", "notify_waiting", "notify_ended"])
    outcome = {None: "changed", True: "enabled", False: "disabled"}[is_enabled]
    record(
        tx,
        actor,
        Act.CHANGE_CHANNEL,
        workspace_id=row.workspace_id or "",
        target=str(row),
        outcome=outcome,
        details={"notify_waiting": row.notify_waiting, "notify_ended": row.notify_ended},
    )
    return row


def _require_something(notify_waiting: bool, notify_ended: str) -> None:
    """Raises ``BadField`` for a channel that would get nothing."""
    if not notify_waiting and notify_ended == Ends.NONE:
        raise BadField(
            "notify_ended: choose what waits, what ends, or both. `is_enabled` switches a channel off"
        )


def delete_channel(tx: Transaction, channel_id: str, *, user_id: int, actor: Actor) -> None:
    """Raises ``ChannelUnknown``."""
    row = own_channel(channel_id, user_id)
    record(tx, actor, Act.DELETE_CHANNEL, workspace_id=row.workspace_id or "", target=str(row))
    row.delete()


def send_test(tx: Transaction, channel_id: str, *, user_id: int) -> Delivery:
    """Queues a test message. Raises ``ChannelUnknown``."""
    row = own_channel(channel_id, user_id)
    notice, _ = Notice.objects.get_or_create(subject=Subject.TEST, subject_id=row.pk)
    Delivery.objects.filter(notice=notice).delete()
    return Delivery.objects.create(
        notice=notice,
        channel=row,
        due_at=tx.now,
        created_at=tx.now,
        link_expires_at=tx.now,
    )


def own_channel(channel_id: str, user_id: int) -> NotificationChannel:
    """Returns a channel of this user. Raises ``ChannelUnknown``."""
    row = NotificationChannel.objects.filter(pk=channel_id, user_id=user_id).first()
    if row is None:
        raise ChannelUnknown
    return row


def _id(workspace: Workspace | None) -> str:
    return "" if workspace is None else workspace.pk
