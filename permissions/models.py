"""Tool permissions: what was asked and answered, and what a session may do from now on."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from workspaces.log.ids import new_id
from workspaces.log.timestamps import now_ms
from workspaces.models import Session, Workspace


class RequestState(models.TextChoices):
    PENDING = "pending"
    ALLOWED = "allowed"
    DENIED = "denied"
    WITHDRAWN = "withdrawn", "withdrawn (its run was cancelled)"


class PermissionRequest(models.Model):
    id = models.CharField(primary_key=True, max_length=36, default=new_id, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+")
    session = models.ForeignKey(Session, models.CASCADE, related_name="permission_requests")
    run_key = models.BigIntegerField(help_text="The run that waits for the answer.")
    tool_call_id = models.CharField(max_length=200)
    tool_name = models.CharField(max_length=200)
    action = models.CharField(max_length=100)
    path = models.CharField(max_length=4096)
    description = models.TextField(blank=True)
    params = models.JSONField(default=dict)
    # From the top session down to the asking one; empty for a top session's own request.
    agent_path = models.JSONField(default=list)
    # What the call would write, symlinks followed. A grant is for these; without them, for `path`.
    files = models.JSONField(default=list)
    always_asks = models.BooleanField(
        default=False, help_text="No grant and no configuration answers it."
    )
    state = models.CharField(
        max_length=16, choices=RequestState.choices, default=RequestState.PENDING
    )
    asked_at = models.BigIntegerField(default=now_ms)
    answered_at = models.BigIntegerField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["workspace", "asked_at"],
                condition=models.Q(state="pending"),
                name="permission_pending",
            ),
            models.Index(fields=["run_key"], name="permission_by_run"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.tool_name}:{self.action} {self.path}"


class Grant(models.Model):
    """An ``allow_session``: this tool and action need no question again for this path.

    For writing tools the path is a file, or the folder that the person chose.
    """

    session = models.ForeignKey(Session, models.CASCADE, related_name="grants")
    tool_name = models.CharField(max_length=200)
    action = models.CharField(max_length=100)
    path = models.CharField(max_length=4096)
    is_folder = models.BooleanField(default=False, help_text="With everything in it.")
    granted_at = models.BigIntegerField(default=now_ms)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["session", "tool_name", "action", "path"], name="one_grant"
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.tool_name}:{self.action} {self.path}"


class BatchState(models.TextChoices):
    PENDING = "pending"
    ANSWERED = "answered"
    DISMISSED = "dismissed"
    WITHDRAWN = "withdrawn", "withdrawn (its run was cancelled)"


class QuestionBatch(models.Model):
    """Questions that a tool asks the user, answered together."""

    id = models.CharField(primary_key=True, max_length=36, default=new_id, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+")
    session = models.ForeignKey(Session, models.CASCADE, related_name="question_batches")
    run_key = models.BigIntegerField(help_text="The run that waits for the answer.")
    tool_call_id = models.CharField(max_length=200)
    questions = models.JSONField(default=list)
    confirm_title = models.TextField(blank=True)
    confirm_description = models.TextField(blank=True)
    state = models.CharField(max_length=16, choices=BatchState.choices, default=BatchState.PENDING)
    responses = models.JSONField(default=list)
    asked_at = models.BigIntegerField(default=now_ms)
    answered_at = models.BigIntegerField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "question batches"
        constraints = [
            models.UniqueConstraint(fields=["run_key", "tool_call_id"], name="one_batch_a_call")
        ]
        indexes = [
            models.Index(
                fields=["workspace", "asked_at"],
                condition=models.Q(state="pending"),
                name="question_pending",
            )
        ]

    @override
    def __str__(self) -> str:
        count = len(self.questions)
        return f"{count} question{'' if count == 1 else 's'}"
