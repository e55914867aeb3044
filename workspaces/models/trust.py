"""Whether a folder's own configuration may act: what a person was shown, and the answer."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from workspaces.log.ids import new_id
from workspaces.log.timestamps import now_ms


class TrustRequestState(models.TextChoices):
    PENDING = "pending"
    ALLOWED = "allowed"
    DENIED = "denied"
    WITHDRAWN = "withdrawn", "withdrawn (the folder's configuration changed)"


class TrustRequest(models.Model):
    """Belongs to a path, not to a workspace's row: a folder may be answered before it is opened."""

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

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["path", "digest"], name="one_trust_request_a_digest")
        ]

    @override
    def __str__(self) -> str:
        return f"{self.path}: {self.get_state_display()}"
