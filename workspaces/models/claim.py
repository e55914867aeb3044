"""Who holds a workspace open: a client's claim, and clients that were retired for good."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from workspaces.log.timestamps import now_ms
from workspaces.models.workspace import Workspace


class ClientClaim(models.Model):
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="claims")
    client_id = models.CharField(max_length=36)
    is_streaming = models.BooleanField(default=False)
    # The process that holds its stream: another process's late detach must not end it.
    holder = models.CharField(max_length=64, blank=True)
    expires_at = models.BigIntegerField(help_text="Renewed while it streams; lapses after a grace.")
    current_session_id = models.CharField(max_length=100, blank=True)
    created_at = models.BigIntegerField(default=now_ms)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "client_id"], name="one_claim_per_client")
        ]
        indexes = [models.Index(fields=["expires_at"], name="claim_by_expiry")]

    @override
    def __str__(self) -> str:
        return self.client_id


class RetiredClient(models.Model):
    client_id = models.CharField(primary_key=True, max_length=36)
    retired_at = models.BigIntegerField(default=now_ms)

    @override
    def __str__(self) -> str:
        return self.client_id
