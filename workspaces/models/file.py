"""Files as a session saw and changed them."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from workspaces.log.ids import new_id
from workspaces.log.timestamps import now_ms
from workspaces.models.session import Session


class FileVersion(models.Model):
    id = models.CharField(primary_key=True, max_length=36, default=new_id, editable=False)
    session = models.ForeignKey(Session, models.CASCADE, related_name="file_versions")
    path = models.CharField(max_length=4096)
    version = models.IntegerField()
    content = models.TextField(blank=True)
    position = models.BigIntegerField(help_text="The number of its event: its order.")
    created_at = models.BigIntegerField(default=now_ms)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "path", "version"], name="one_file_version")
        ]

    @override
    def __str__(self) -> str:
        return f"{self.path} v{self.version}"


class FileRead(models.Model):
    session = models.ForeignKey(Session, models.CASCADE, related_name="file_reads")
    path = models.CharField(max_length=4096)
    mtime_ns = models.BigIntegerField()
    size = models.BigIntegerField()
    read_at = models.BigIntegerField(default=now_ms)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "path"], name="one_read_mark")]

    @override
    def __str__(self) -> str:
        return self.path
