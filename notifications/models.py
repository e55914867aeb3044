"""Where users get messages, what messages are about, and every delivery."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from typing_extensions import override

from workspaces.log.ids import new_id
from workspaces.log.timestamps import now_ms
from workspaces.models import Workspace


class ChannelKind(models.TextChoices):
    WEBHOOK = "webhook"
    EMAIL = "email", "e-mail"
    WEB_PUSH = "web_push", "browser"


class Ends(models.TextChoices):
    """The runs of whose ends a channel gets messages."""

    NONE = "none"
    OWN = "own", "own (of prompts that the user has sent)"
    ALL = "all", "all (of prompts in workspaces that the user may read)"


class NotificationChannel(models.Model):
    """One way to reach a user: an address for webhooks, the account's e-mail, or a browser."""

    id = models.CharField(primary_key=True, max_length=36, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="channels")
    kind = models.CharField(max_length=16, choices=ChannelKind.choices)
    workspace = models.ForeignKey(
        Workspace,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        help_text="Empty: every workspace of the user.",
    )
    name = models.CharField(max_length=200, help_text="How lists show it, without secrets.")
    sealed_target = models.TextField(blank=True, help_text="Addresses and keys, encrypted.")
    notify_waiting = models.BooleanField(
        default=True, help_text="Messages about requests and questions that wait."
    )
    notify_ended = models.CharField(
        max_length=8, choices=Ends.choices, default=Ends.OWN, help_text="Messages about ends."
    )
    is_enabled = models.BooleanField(default=True)
    # In a row; a channel that always fails is disabled.
    failures = models.IntegerField(default=0)
    last_error = models.CharField(max_length=300, blank=True)
    last_sent_at = models.BigIntegerField(null=True, blank=True)
    created_at = models.BigIntegerField(default=now_ms)

    @override
    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.name}"


class Subject(models.TextChoices):
    """What a notice is about."""

    PERMISSION = "permission"
    QUESTION = "question"
    RUN = "run", "run (that has ended)"
    TEST = "test"


class Notice(models.Model):
    """A request, a batch of questions or a run's end of which users are notified, once."""

    subject = models.CharField(max_length=16, choices=Subject.choices)
    subject_id = models.CharField(max_length=36)
    workspace_id = models.CharField(max_length=36, blank=True)
    session_id = models.CharField(max_length=200, blank=True)
    created_at = models.BigIntegerField(default=now_ms)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["subject", "subject_id"], name="one_notice_a_subject")
        ]

    @override
    def __str__(self) -> str:
        return f"{self.subject} {self.subject_id}"


class DeliveryState(models.TextChoices):
    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed", "failed (after all attempts)"
    OBSOLETE = "obsolete", "obsolete (answered or deleted before)"


class Delivery(models.Model):
    """A message to one channel, with its attempts. Its link answers the request once."""

    id = models.CharField(primary_key=True, max_length=36, default=new_id, editable=False)
    notice = models.ForeignKey(Notice, models.CASCADE, related_name="deliveries")
    channel = models.ForeignKey(NotificationChannel, models.CASCADE, related_name="deliveries")
    state = models.CharField(
        max_length=16, choices=DeliveryState.choices, default=DeliveryState.PENDING
    )
    attempts = models.IntegerField(default=0)
    due_at = models.BigIntegerField(default=now_ms, help_text="When the next attempt is due.")
    status_code = models.IntegerField(null=True, blank=True, help_text="Of the last response.")
    error = models.CharField(max_length=300, blank=True)
    created_at = models.BigIntegerField(default=now_ms)
    finished_at = models.BigIntegerField(null=True, blank=True)
    link_expires_at = models.BigIntegerField()
    link_used_at = models.BigIntegerField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            models.UniqueConstraint(fields=["notice", "channel"], name="one_delivery_a_channel")
        ]
        indexes = [
            models.Index(
                fields=["due_at"],
                condition=models.Q(state="pending"),
                name="delivery_due",
            ),
            models.Index(fields=["channel", "created_at", "id"], name="delivery_by_channel"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.notice} to {self.channel_id}: {self.state}"


class PushKey(models.Model):
    """The server's key for messages to browsers (VAPID). One row, made at the first use."""

    id = models.SmallIntegerField(primary_key=True, default=1, editable=False)
    sealed_key = models.TextField()
    public_key = models.CharField(max_length=100, help_text="What browsers subscribe with.")
    created_at = models.BigIntegerField(default=now_ms)

    @override
    def __str__(self) -> str:
        return self.public_key
