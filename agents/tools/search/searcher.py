"""Runs a searching process and keeps what it prints, its complaint apart."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.tools.contract import ToolContext, ToolRefusal
from agents.tools.limits import SEARCH_SECONDS
from agents.tools.search.collector import Collector
from agents.tools.shell.environment import marked_environment
from agents.tools.shell.process import ProcessFailed, run

_MAX_COMPLAINT = 2_000


@dataclass(frozen=True, slots=True)
class Searched:
    output: bytes
    complaint: str
    exit_code: int
    complete: bool  # false when it was stopped for its time or its size


async def search(
    argv: Sequence[str], *, root: Path, context: ToolContext, limit_bytes: int, given: bytes = b""
) -> Searched:
    """``given`` is its stdin. Raises ``ToolRefusal`` when it cannot be started."""
    collected = Collector(limit_bytes)
    with tempfile.TemporaryFile() as complaints, tempfile.TemporaryFile() as stdin:
        stdin.write(given)
        stdin.seek(0)
        try:
            finished = await run(
                argv,
                cwd=root,
                env=marked_environment(context),
                sink=collected,
                timeout_seconds=SEARCH_SECONDS,
                # ripgrep reads a file on stdin instead of the folder: only the scanner gets one.
                stdin=stdin.fileno() if given else None,
                stderr=complaints.fileno(),
            )
        except ProcessFailed as failure:
            raise ToolRefusal(f"The search could not be run: {failure}") from None
        complaint = os.pread(complaints.fileno(), _MAX_COMPLAINT, 0).decode("utf-8", "replace")
    return Searched(
        collected.content(),
        complaint.strip(),
        finished.exit_code,
        not (finished.timed_out or finished.stopped),
    )
