"""What happened: one gap-free, append-only log for each workspace."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from workspaces.models.workspace import Workspace


class Event(models.Model):
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
