"""The row of a remote worker that is connected to the server."""

from __future__ import annotations

from django.db import models
from typing_extensions import override


class RemoteWorker(models.Model):
    """A connected remote worker. A row that is not renewed is of one that was lost."""

    name = models.CharField(primary_key=True, max_length=63)
    instance = models.CharField(max_length=64, help_text="Which process of that name it is.")
    server = models.CharField(max_length=64, help_text="Which process has renewed the row last.")
    servers = models.TextField(
        default="{}",
        db_default="{}",
        help_text="JSON; the processes it is connected to, with the times of their renewals.",
    )
    roots = models.JSONField(default=list, help_text="The names of its folders.")
    capacity = models.IntegerField(help_text="How many prompts it performs at once in a folder.")
    seen_at = models.BigIntegerField()

    @override
    def __str__(self) -> str:
        return self.name
