"""What was said. ``parts`` holds the wire form; see ``workspaces.log.parts``."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from workspaces.log.ids import new_id
from workspaces.log.timestamps import now_ms
from workspaces.models.session import Session


class Message(models.Model):
    id = models.CharField(primary_key=True, max_length=36, default=new_id, editable=False)
    workspace = models.ForeignKey("workspaces.Workspace", models.CASCADE, related_name="+")
    session = models.ForeignKey(Session, models.CASCADE, related_name="messages")
    position = models.BigIntegerField(help_text="The number of the event that began it: its order.")
    stream_number = models.BigIntegerField(
        default=0, help_text="Names it in deltas while it streams."
    )
    role = models.CharField(max_length=16)
    parts = models.TextField(default="[]")
    model = models.CharField(max_length=200, blank=True)
    provider = models.CharField(max_length=200, blank=True)
    is_finished = models.BooleanField(default=False)
    is_summary = models.BooleanField(default=False)
    run_key = models.BigIntegerField(null=True, blank=True, help_text="The run that wrote it.")
    created_at = models.BigIntegerField(default=now_ms)
    updated_at = models.BigIntegerField(default=now_ms)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "position"], name="one_message_a_position")
        ]
        indexes = [
            models.Index(fields=["workspace", "role", "position"], name="message_by_role"),
            models.Index(
                fields=["workspace"], condition=models.Q(is_finished=False), name="message_open"
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.role} {self.id}"
