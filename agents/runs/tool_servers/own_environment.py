"""This server's own environment, for workspaces whose clients sent none."""

from __future__ import annotations

import os

# Of the server's own environment, what must not reach a tool.
PRIVATE = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "CRUSH_FLEET_TOKEN")


def server_env() -> dict[str, str]:
    """Without the server's secrets."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in PRIVATE and not name.startswith(("CRUSH_SECRET", "OTEL_"))
    }
