"""Files that users attach to prompts: see ``workspaces.log.attached_data``."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from workspaces.log.timestamps import now_ms
from workspaces.models.workspace import Workspace


class Attachment(models.Model):
    id = models.CharField(primary_key=True, max_length=64, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+")
    content = models.TextField(help_text="Base64.")
    created_at = models.BigIntegerField(default=now_ms)

    @override
    def __str__(self) -> str:
        return self.id[:12]
