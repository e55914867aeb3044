"""Work: one accepted prompt is one run."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from workspaces.models import Session, Workspace
from workspaces.storage.moments import now_ms


class RunState(models.TextChoices):
    ACCEPTED = "accepted"
    RUNNING = "running"
    PARKED = "parked", "parked (waits for an answer)"
    READY = "ready", "ready (answered or handed over, waits for a worker)"
    FINISHED = "finished"


class RunOutcome(models.TextChoices):
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    INTERRUPTED = "interrupted", "interrupted (its process died in the middle of a step)"
    FOLDED = "folded", "folded into the run before it"


class RunKind(models.TextChoices):
    PROMPT = "prompt"
    SUMMARY = "summary"


# The states in which a run holds its session: at most one such run a session.
HOLDING = (RunState.RUNNING, RunState.PARKED, RunState.READY)


class Run(models.Model):
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="runs")
    session = models.ForeignKey(Session, models.CASCADE, related_name="runs")
    run_id = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001  absent is not empty
    accept_number = models.BigIntegerField(help_text="Its place among the session's prompts.")
    kind = models.CharField(max_length=16, choices=RunKind.choices, default=RunKind.PROMPT)
    state = models.CharField(max_length=16, choices=RunState.choices, default=RunState.ACCEPTED)
    outcome = models.CharField(max_length=16, choices=RunOutcome.choices, blank=True)
    prompt = models.TextField(blank=True)
    attachments = models.TextField(default="[]", help_text="JSON; the parts of the user message.")
    body_digest = models.CharField(max_length=64, blank=True)
    was_queued = models.BooleanField(default=False, help_text="Accepted behind other work.")
    folded_into = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, related_name="folded"
    )
    # Who works on it: every write of a worker names the fence it claimed with.
    worker = models.CharField(max_length=64, blank=True)
    fence = models.BigIntegerField(default=0)
    lease_expires_at = models.BigIntegerField(default=0)
    # Calls whose tools were begun and have no result yet: never begun again.
    open_calls = models.TextField(default="[]")
    message_id = models.CharField(
        max_length=36, blank=True, help_text="Its last assistant message."
    )
    error = models.TextField(blank=True)
    accepted_at = models.BigIntegerField(default=now_ms)
    started_at = models.BigIntegerField(null=True, blank=True)
    finished_at = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "run_id"],
                condition=models.Q(run_id__isnull=False),
                name="one_run_a_run_id",
            ),
            models.UniqueConstraint(
                fields=["session"],
                condition=models.Q(state__in=["running", "parked", "ready"]),
                name="one_run_holds_a_session",
            ),
            models.UniqueConstraint(
                fields=["session", "accept_number"], name="one_run_an_accept_number"
            ),
        ]
        indexes = [
            models.Index(
                fields=["id"],
                condition=models.Q(state__in=["accepted", "ready"]),
                name="run_claimable",
            ),
            models.Index(
                fields=["lease_expires_at"],
                condition=models.Q(state="running"),
                name="run_by_lease",
            ),
            models.Index(
                fields=["workspace"],
                condition=~models.Q(state="finished"),
                name="run_unfinished",
            ),
        ]

    @override
    def __str__(self) -> str:
        return self.run_id or f"run {self.pk}"
