"""A conversation in a workspace, with its sums and its place in the queue of prompts."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from workspaces.log.ids import new_id
from workspaces.log.timestamps import now_ms
from workspaces.models.workspace import Workspace


class Session(models.Model):
    # A child session's id is "<message id>$$<tool call id>".
    id = models.CharField(primary_key=True, max_length=200, default=new_id, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="sessions")
    parent_session_id = models.CharField(max_length=200, blank=True, db_index=True)
    title = models.CharField(max_length=500, blank=True)
    message_count = models.IntegerField(default=0)
    prompt_tokens = models.BigIntegerField(default=0, help_text="Of its last model request.")
    completion_tokens = models.BigIntegerField(default=0, help_text="Of its last model request.")
    total_prompt_tokens = models.BigIntegerField(
        db_default=0, help_text="Of all its model requests, titles and summaries included."
    )
    total_completion_tokens = models.BigIntegerField(
        db_default=0, help_text="Of all its model requests, titles and summaries included."
    )
    cost = models.FloatField(default=0.0)
    context_tokens = models.BigIntegerField(
        db_default=0, help_text="What the conversation took of the model's window at last."
    )
    summary_message_id = models.CharField(max_length=36, blank=True)
    todos = models.JSONField(default=list, blank=True)
    attached_clients = models.IntegerField(default=0)
    is_busy = models.BooleanField(default=False, help_text="A run is running, parked or waiting.")
    is_deleting = models.BooleanField(default=False, help_text="Gone as soon as its run has ended.")
    last_accept = models.BigIntegerField(
        default=0, help_text="The newest accepted prompt's number."
    )
    cancel_mark = models.BigIntegerField(
        default=0, help_text="Prompts up to this one are cancelled."
    )
    created_at = models.BigIntegerField(default=now_ms)
    updated_at = models.BigIntegerField(default=now_ms)

    class Meta:
        indexes = [models.Index(fields=["workspace", "-updated_at"], name="session_by_recency")]

    @override
    def __str__(self) -> str:
        return self.title or f"Untitled ({self.id[:8]})"
