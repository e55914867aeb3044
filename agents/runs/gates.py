"""A seam for tests: a named place where a run waits while a gate file exists.

Without ``CRUSH_GATES`` (a folder) nothing waits and nothing is looked at.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from django.conf import settings

LOOK_SECONDS = 0.005
LONGEST_SECONDS = 60.0


async def pass_gate(name: str) -> None:
    """Leaves ``NAME.reached`` and waits until ``NAME.hold`` is gone."""
    if not settings.CRUSH_GATES:
        return
    folder = Path(settings.CRUSH_GATES)
    hold = folder / f"{name}.hold"
    if not hold.exists():
        return
    (folder / f"{name}.reached").touch()
    loop = asyncio.get_running_loop()
    until = loop.time() + LONGEST_SECONDS
    while hold.exists() and loop.time() < until:  # noqa: ASYNC110  another process opens the gate
        await asyncio.sleep(LOOK_SECONDS)
