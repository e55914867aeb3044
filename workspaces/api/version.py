"""What this server calls itself."""

from __future__ import annotations

import platform
import sys

from workspaces.release import VERSION

__all__ = ["VERSION", "version_facts"]

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def version_facts() -> dict[str, str]:
    """Clients compare ``version`` and ``build_id`` with their own and show the rest."""
    machine = platform.machine()
    return {
        "build_id": f"crushsite-{VERSION}",
        "commit": "unknown",
        "go_version": "",  # there is no Go here; the field is never absent
        "platform": f"{sys.platform}/{_MACHINES.get(machine, machine)}",
        "version": VERSION,
    }
