"""Permission requests with their answers, grants, questions of tools, and the policy for both."""

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


class GrantScope(models.TextChoices):
    """How far an answer that allows a call reaches."""

    ONCE = "once"
    RUN = "run"
    SESSION = "session"
    WORKSPACE = "workspace"


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
    # From the top session down to the one of the tool call; empty for a top session's own call.
    agent_path = models.JSONField(default=list)
    # Files that the call would write, symlinks resolved. A grant covers these, or else `path`.
    files = models.JSONField(default=list)
    always_asks = models.BooleanField(
        default=False, help_text="No grant and no configuration answers it."
    )
    # Of the tool's arguments, to check changed ones. Empty: they cannot be changed.
    schema = models.JSONField(default=dict)
    state = models.CharField(
        max_length=16, choices=RequestState.choices, default=RequestState.PENDING
    )
    asked_at = models.BigIntegerField(default=now_ms)
    answered_at = models.BigIntegerField(null=True, blank=True)
    author = models.JSONField(null=True, blank=True, help_text="Who answered.")
    reason = models.TextField(blank=True, default="", help_text="What the model reads.")
    scope = models.CharField(max_length=16, choices=GrantScope.choices, blank=True, default="")
    until = models.BigIntegerField(null=True, blank=True, help_text="When its grants end.")
    arguments = models.TextField(
        blank=True, default="", help_text="JSON: the call's arguments as the answer changed them."
    )
    # The stored call and this row have the changed arguments.
    is_changed = models.BooleanField(default=False)
    # Changed arguments needed a further request about the same call, which counts instead.
    is_replaced = models.BooleanField(default=False)
    # Whether the call runs again: its tool was cut, after it had printed this. Null: an ordinary one.
    cut_output = models.TextField(null=True, blank=True)  # noqa: DJ001  empty is not absent
    deny_at = models.BigIntegerField(null=True, blank=True, help_text="By the policy.")
    notify_at = models.BigIntegerField(null=True, blank=True, help_text="By the policy.")
    notified_at = models.BigIntegerField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["workspace", "asked_at"],
                condition=models.Q(state="pending"),
                name="permission_pending",
            ),
            models.Index(fields=["run_key"], name="permission_by_run"),
            models.Index(fields=["asked_at", "id"], name="permission_by_time"),
            models.Index(fields=["tool_name", "asked_at", "id"], name="permission_by_tool"),
            models.Index(
                fields=["deny_at"],
                condition=models.Q(state="pending", deny_at__isnull=False),
                name="permission_to_deny",
            ),
            models.Index(
                fields=["notify_at"],
                condition=models.Q(
                    state="pending", notify_at__isnull=False, notified_at__isnull=True
                ),
                name="permission_to_notify",
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.tool_name}:{self.action} {self.path}"


class Grant(models.Model):
    """A person's answer for later calls: this tool and action need no request for this path.

    For writing tools the path is a file, or the folder that the person chose. It counts only for
    the runs of that person.
    """

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+")
    scope = models.CharField(
        max_length=16,
        choices=[(s.value, s.label) for s in GrantScope if s != GrantScope.ONCE],
        default=GrantScope.SESSION,
    )
    # Of the request that was answered. A grant for the workspace outlives it.
    session = models.ForeignKey(
        Session, models.CASCADE, null=True, blank=True, related_name="grants"
    )
    run_key = models.BigIntegerField(null=True, blank=True, help_text="For a grant of one run.")
    tool_name = models.CharField(max_length=200)
    action = models.CharField(max_length=100)
    path = models.CharField(max_length=4096)
    is_folder = models.BooleanField(default=False, help_text="With everything in it.")
    user_id = models.BigIntegerField(
        null=True, blank=True, help_text="Whose runs it is for. Empty: the owner's."
    )
    author = models.JSONField(null=True, blank=True, help_text="Who gave it.")
    granted_at = models.BigIntegerField(default=now_ms)
    expires_at = models.BigIntegerField(null=True, blank=True, help_text="Empty: never.")

    class Meta:
        indexes = [
            models.Index(fields=["workspace", "tool_name", "action"], name="grant_by_tool"),
            models.Index(
                fields=["expires_at"],
                condition=models.Q(expires_at__isnull=False),
                name="grant_by_expiry",
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.tool_name}:{self.action} {self.path}"


class ApprovalPolicy(models.Model):
    """What happens to requests and questions of a workspace that stay open.

    Without a row, and with both times empty, they wait.
    """

    workspace = models.OneToOneField(
        Workspace, models.CASCADE, primary_key=True, related_name="approval_policy"
    )
    notify_after_seconds = models.IntegerField(null=True, blank=True)
    deny_after_seconds = models.IntegerField(null=True, blank=True)
    author = models.JSONField(null=True, blank=True, help_text="Who set it.")
    changed_at = models.BigIntegerField(default=now_ms)

    class Meta:
        indexes = [
            models.Index(fields=["changed_at", "workspace"], name="approval_policy_by_change")
        ]
        verbose_name_plural = "approval policies"

    @override
    def __str__(self) -> str:
        after = {"notify": self.notify_after_seconds, "deny": self.deny_after_seconds}
        return ", ".join(f"{what} after {s} s" for what, s in after.items() if s) or "wait"


class BatchState(models.TextChoices):
    PENDING = "pending"
    ANSWERED = "answered"
    DISMISSED = "dismissed"
    WITHDRAWN = "withdrawn", "withdrawn (its run was cancelled)"


class QuestionBatch(models.Model):
    """Questions of a tool to the user, answered together."""

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
    author = models.JSONField(null=True, blank=True, help_text="Who answered or dismissed it.")
    deny_at = models.BigIntegerField(
        null=True, blank=True, help_text="When the policy dismisses it."
    )
    notify_at = models.BigIntegerField(null=True, blank=True, help_text="By the policy.")
    notified_at = models.BigIntegerField(null=True, blank=True)

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
            ),
            models.Index(fields=["asked_at", "id"], name="question_by_time"),
            models.Index(
                fields=["deny_at"],
                condition=models.Q(state="pending", deny_at__isnull=False),
                name="question_to_dismiss",
            ),
            models.Index(
                fields=["notify_at"],
                condition=models.Q(
                    state="pending", notify_at__isnull=False, notified_at__isnull=True
                ),
                name="question_to_notify",
            ),
        ]

    @override
    def __str__(self) -> str:
        count = len(self.questions)
        return f"{count} question{'' if count == 1 else 's'}"
