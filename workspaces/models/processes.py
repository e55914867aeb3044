"""The processes of the server, as each registers itself."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from workspaces.log.ids import new_id
from workspaces.log.timestamps import now_ms

# The last second that dates can name: the lease of a process that is alone on its data, and of
# runs, which last as long as their process is registered.
NEVER_EXPIRES = 253_402_300_799_000


class RegisteredProcess(models.Model):
    """A process of the server. It renews this row while it lives, and so holds what it has claimed.

    No index has a column that a heartbeat changes: PostgreSQL then rewrites no index entry.
    """

    id = models.CharField(primary_key=True, max_length=64)
    kind = models.CharField(max_length=16, help_text="serve, web or worker.")
    host = models.CharField(max_length=255)
    pid_host = models.CharField(
        max_length=255,
        blank=True,
        default="",
        db_default="",
        help_text="Where its pids are comparable: the host and its pid namespace.",
    )
    pid = models.BigIntegerField()
    version = models.CharField(max_length=64)
    roots = models.JSONField(default=list, help_text="The names of the roots that it serves.")
    missing_roots = models.JSONField(
        null=True, help_text="The names of those that it is to serve, and does not find."
    )
    labels = models.JSONField(default=list, help_text="The labels that its operator gave it.")
    started_at = models.BigIntegerField(help_text="When the process started.")
    registered_at = models.BigIntegerField(help_text="Later if it has lost its registration.")
    expires_at = models.BigIntegerField(help_text="The end of its lease, unless it renews it.")
    is_draining = models.BooleanField(default=False)
    is_lost = models.BooleanField(
        default=False, help_text="Others take its runs over. It must register again."
    )
    runs = models.IntegerField(default=0, help_text="How many runs it performs.")
    most_runs = models.IntegerField(default=0, help_text="How many it performs at most.")

    class Meta:
        verbose_name_plural = "registered processes"

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.pid} on {self.host}"


class WorkspaceHome(models.Model):
    """The worker in which the tool servers, jobs and shells of a workspace live.

    It binds while its process is registered and does not drain; other rows count as none. No
    constraint is checked, because claims take homes.
    """

    workspace = models.OneToOneField(
        "workspaces.Workspace",
        models.CASCADE,
        primary_key=True,
        db_constraint=False,
        related_name="home",
    )
    process_id = models.CharField(max_length=64, db_index=True)
    since = models.BigIntegerField()
    is_overflowing = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Other workers may claim its runs: the home is full, and has nothing else of it.",
    )

    @override
    def __str__(self) -> str:
        return f"{self.workspace_id} in {self.process_id}"


class WorkRoot(models.Model):
    """A named folder, below which workspaces lie. Its marker file contains the id."""

    name = models.CharField(primary_key=True, max_length=63)
    path = models.CharField(max_length=4096, unique=True, help_text="Absolute, symlinks followed.")
    marker = models.CharField(max_length=36, unique=True, default=new_id, editable=False)
    created_at = models.BigIntegerField(default=now_ms)

    @override
    def __str__(self) -> str:
        return f"{self.name}={self.path}"
