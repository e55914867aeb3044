"""The rows of a workspace: itself, its log, the clients that keep it open, and requests about it."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from workspaces.log.ids import new_id
from workspaces.log.timestamps import now_ms


class PermissionMode(models.TextChoices):
    """Whether permissions are requested. Only clients distinguish ``yolo`` and ``sysadmin``."""

    NORMAL = "normal", "normal (permissions are requested)"
    YOLO = "yolo", "yolo (nothing is requested)"
    SYSADMIN = "sysadmin", "sysadmin (nothing is requested)"


class Workspace(models.Model):
    """A folder, by its resolved path, with its event counter."""

    id = models.CharField(primary_key=True, max_length=36, default=new_id, editable=False)
    path = models.CharField(max_length=4096, unique=True, help_text="Absolute, symlinks followed.")
    data_dir = models.CharField(max_length=4096)
    is_open = models.BooleanField(
        default=True, help_text="Closed: 404 until its path is opened again."
    )
    skip_permissions = models.BooleanField(default=False, help_text="Nothing is asked (yolo).")
    permission_mode = models.CharField(
        max_length=16,
        choices=PermissionMode.choices,
        default=PermissionMode.NORMAL,
        db_default=PermissionMode.NORMAL,
    )
    debug = models.BooleanField(default=False)
    channels = models.JSONField(default=list, blank=True)
    sealed_env = models.TextField(blank=True, help_text="The clients' environment, encrypted.")
    stored_digest = models.CharField(
        max_length=64,
        blank=True,
        default="",
        db_default="",
        help_text="Of the stored choices as this server wrote them; others came with the folder.",
    )
    labels = models.CharField(
        max_length=1000,
        blank=True,
        default="",
        db_default="",
        help_text="Those that its worker must have, in order, with commas.",
    )
    last_event = models.BigIntegerField(default=0, help_text="The newest number of its event log.")
    first_event = models.BigIntegerField(
        default=1, db_default=1, help_text="The oldest number that its event log keeps."
    )
    created_at = models.BigIntegerField(default=now_ms)
    opened_at = models.BigIntegerField(default=now_ms)
    closed_at = models.BigIntegerField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["-opened_at", "-id"], name="workspace_by_opening"),
            # Hardly ever any: workers read which labels are needed each second.
            models.Index(
                fields=["labels"], condition=~models.Q(labels=""), name="workspace_with_labels"
            ),
        ]

    @override
    def __str__(self) -> str:
        return self.path


class Event(models.Model):
    """A record of the log: each workspace has one, without gaps. Only its oldest rows are deleted."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="events")
    number = models.BigIntegerField()
    kind = models.CharField(max_length=40)
    session_id = models.CharField(max_length=200, blank=True)
    payload = models.TextField(help_text="JSON, exactly as native streams send it.")
    created_at = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "number"], name="one_event_a_number")
        ]

    @override
    def __str__(self) -> str:
        return f"{self.number} {self.kind}"


class ClientClaim(models.Model):
    """Keeps a workspace open for a client."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="claims")
    client_id = models.CharField(max_length=36)
    is_streaming = models.BooleanField(default=False)
    # The process with the client's stream: a late detach of another process must not end the claim.
    holder = models.CharField(max_length=64, blank=True)
    expires_at = models.BigIntegerField(help_text="Renewed while it streams; lapses after a grace.")
    current_session_id = models.CharField(max_length=100, blank=True)
    user_id = models.BigIntegerField(null=True, blank=True, help_text="Who looks at the session.")
    created_at = models.BigIntegerField(default=now_ms)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "client_id"], name="one_claim_per_client")
        ]
        # No index has the column that is renewed: PostgreSQL then rewrites no index entry, and the
        # few claims are read whole to find those that have expired.

    @override
    def __str__(self) -> str:
        return self.client_id


class RetiredClient(models.Model):
    """A client that may never claim a workspace again."""

    client_id = models.CharField(primary_key=True, max_length=36)
    retired_at = models.BigIntegerField(default=now_ms)

    @override
    def __str__(self) -> str:
        return self.client_id


class TrustRequestState(models.TextChoices):
    PENDING = "pending"
    ALLOWED = "allowed"
    DENIED = "denied"
    WITHDRAWN = "withdrawn", "withdrawn (the folder's configuration changed)"


class TrustRequest(models.Model):
    """A request for a path, not a workspace: it may be decided before the folder is opened."""

    id = models.CharField(primary_key=True, max_length=36, default=new_id, editable=False)
    path = models.CharField(max_length=4096, help_text="The folder, absolute, symlinks followed.")
    digest = models.CharField(max_length=64, help_text="Of all that the folder would do.")
    state = models.CharField(
        max_length=16, choices=TrustRequestState.choices, default=TrustRequestState.PENDING
    )
    description = models.TextField(blank=True)
    params = models.JSONField(default=dict, help_text="What was shown, without secrets.")
    asked_at = models.BigIntegerField(default=now_ms)
    answered_at = models.BigIntegerField(null=True, blank=True)
    author = models.JSONField(null=True, blank=True, help_text="Who answered.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["path", "digest"], name="one_trust_request_a_digest")
        ]

    @override
    def __str__(self) -> str:
        return f"{self.path}: {self.get_state_display()}"


class IdempotencyKey(models.Model):
    """The response to a request of the native REST interface, in case it is sent again."""

    caller = models.CharField(max_length=100)
    key = models.CharField(max_length=200)
    digest = models.CharField(max_length=64, help_text="Of the request.")
    status = models.SmallIntegerField(null=True, help_text="Empty: it is being carried out.")
    sealed_body = models.TextField(blank=True, help_text="Encrypted.")
    created_at = models.BigIntegerField(default=now_ms, db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["caller", "key"], name="one_idempotency_key_a_caller")
        ]

    @override
    def __str__(self) -> str:
        return self.key


class DailyJob(models.Model):
    """Work that one process does once a day: ``workspaces.actions.daily_jobs``."""

    name = models.CharField(primary_key=True, max_length=40)
    due_at = models.BigIntegerField(help_text="When a process may begin it.")
    holder = models.CharField(max_length=64, blank=True, help_text="The process that does it.")
    held_until = models.BigIntegerField(default=0, help_text="Renewed by each of its steps.")
    finished_at = models.BigIntegerField(null=True, blank=True)
    result = models.JSONField(default=dict)

    @override
    def __str__(self) -> str:
        return self.name


class KnownKey(models.Model):
    """The key that has encrypted the secrets of this database, by its fingerprint."""

    name = models.CharField(primary_key=True, max_length=40, help_text="Of its file.")
    fingerprint = models.CharField(max_length=64)
    noted_at = models.BigIntegerField(default=now_ms, db_default=0)

    @override
    def __str__(self) -> str:
        return self.name
