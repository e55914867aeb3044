"""A folder that agents work in, known by its resolved path, with its event counter."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from workspaces.log.ids import new_id
from workspaces.log.timestamps import now_ms


class PermissionMode(models.TextChoices):
    """Two names for one thing: clients of the newest release tell them apart, this server does not."""

    NORMAL = "normal", "normal (permissions are requested)"
    YOLO = "yolo", "yolo (nothing is requested)"
    SYSADMIN = "sysadmin", "sysadmin (nothing is requested)"


class Workspace(models.Model):
    id = models.CharField(primary_key=True, max_length=36, default=new_id, editable=False)
    path = models.CharField(max_length=4096, unique=True, help_text="Absolute, symlinks followed.")
    data_dir = models.CharField(max_length=4096)
    is_open = models.BooleanField(
        default=True, help_text="Closed: 404 until its path is opened again."
    )
    skip_permissions = models.BooleanField(default=False, help_text="Nothing is asked (yolo).")
    permission_mode = models.CharField(
        max_length=16,
        choices=PermissionMode.choices,
        default=PermissionMode.NORMAL,
        db_default=PermissionMode.NORMAL,
    )
    debug = models.BooleanField(default=False)
    channels = models.JSONField(default=list, blank=True)
    sealed_env = models.TextField(blank=True, help_text="The clients' environment, encrypted.")
    stored_digest = models.CharField(
        max_length=64,
        blank=True,
        default="",
        db_default="",
        help_text="Of the stored choices as this server wrote them; others came with the folder.",
    )
    last_event = models.BigIntegerField(default=0, help_text="The newest number of its event log.")
    created_at = models.BigIntegerField(default=now_ms)
    opened_at = models.BigIntegerField(default=now_ms)
    closed_at = models.BigIntegerField(null=True, blank=True)

    @override
    def __str__(self) -> str:
        return self.path
