"""The version and platform of the server."""

from __future__ import annotations

import platform
import sys

from workspaces.release import VERSION

__all__ = ["VERSION", "version_facts"]

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def version_facts() -> dict[str, str]:
    """Returns the version; clients compare ``version`` and ``build_id``, and show the rest."""
    machine = platform.machine()
    return {
        "build_id": f"crushsite-{VERSION}",
        "commit": "unknown",
        "go_version": "",  # not a Go program, but clients require the field
        "platform": f"{sys.platform}/{_MACHINES.get(machine, machine)}",
        "version": VERSION,
    }
