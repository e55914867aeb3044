"""The rows of MCP servers: their states, and the secrets of logins."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from workspaces.log.timestamps import now_ms
from workspaces.models import Workspace


class McpServer(models.Model):
    """The state of a workspace's MCP server, for clients."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="mcp_servers")
    name = models.CharField(max_length=200)
    state = models.CharField(max_length=16)  # disabled, starting, connected, error, needs auth
    error = models.TextField(blank=True)
    tool_count = models.IntegerField(default=0)
    prompt_count = models.IntegerField(default=0)
    resource_count = models.IntegerField(default=0)
    auth_url = models.TextField(blank=True, help_text="Where a person lets the server in.")
    connected_at = models.BigIntegerField(null=True, blank=True)
    pid = models.IntegerField(default=0)
    pid_started = models.CharField(max_length=64, blank=True)

    class Meta:
        verbose_name = "MCP server"
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name"], name="one_mcp_server_a_name")
        ]

    @override
    def __str__(self) -> str:
        return f"{self.name}: {self.state}"


class McpSecret(models.Model):
    """The encrypted tokens and client registration for an MCP server that requires OAuth."""

    url = models.CharField(max_length=1000, unique=True)
    sealed = models.TextField()
    changed_at = models.BigIntegerField(default=now_ms)

    class Meta:
        verbose_name = "MCP login"

    @override
    def __str__(self) -> str:
        return self.url
