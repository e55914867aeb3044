"""Runs a searching process and keeps what it prints, its complaint apart."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.tools.contract import ToolContext, ToolRefusal
from agents.tools.limits import SEARCH_SECONDS
from agents.tools.shell.environment import marked_environment
from agents.tools.shell.process import ProcessFailed
from agents.tools.shell.pumped import run


class Collector:
    def __init__(self, limit_bytes: int) -> None:
        self._rest = limit_bytes
        self._chunks: list[bytes] = []

    def feed(self, chunk: bytes) -> bool:
        self._chunks.append(chunk[: self._rest])
        self._rest -= len(chunk)
        return self._rest > 0

    def content(self) -> bytes:
        return b"".join(self._chunks)


_MAX_COMPLAINT = 2_000
_BLOCK_BYTES = 512
_WORST_EXIT = 2  # some folders could not be read; beyond it the search itself failed

# Is this still the folder that was judged, or has it been swapped for a link to another? Then:
# it prints into a file, because ripgrep writes each file's lines by themselves, and ten thousand
# small pieces through a pipe would cost as much as the search. A line without an end would be
# held whole, so it gives up beyond 4 GiB of memory.
_GUARDED = """\
cd -P . && [ "$PWD" = "$1" ] || exit 126
exec >"$2" || exit 126
ulimit -v 4194304 2>/dev/null
ulimit -f "$3" 2>/dev/null
shift 3
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Searched:
    output: bytes
    complaint: str
    exit_code: int
    complete: bool  # false when it was stopped for its time or its size


async def search(
    argv: Sequence[str], *, root: Path, context: ToolContext, limit_bytes: int, given: bytes = b""
) -> Searched:
    """In ``root``, a resolved folder. ``given`` is its stdin.

    Raises ``ToolRefusal`` when it cannot be started.
    """
    with (
        tempfile.NamedTemporaryFile(prefix="crush-search-") as output,
        tempfile.TemporaryFile() as complaints,
        tempfile.TemporaryFile() as stdin,
    ):
        stdin.write(given)
        stdin.seek(0)
        blocks = str(limit_bytes // _BLOCK_BYTES + 1)
        guard = ["/bin/sh", "-c", _GUARDED, "search", str(root), output.name, blocks]
        try:
            finished = await run(
                [*guard, *argv],
                cwd=root,
                env=marked_environment(context),
                sink=Collector(1),  # all goes into the file
                timeout_seconds=SEARCH_SECONDS,
                # ripgrep reads a file on stdin instead of the folder: only the scanner gets one.
                stdin=stdin.fileno() if given else None,
                stderr=complaints.fileno(),
            )
        except ProcessFailed as failure:
            raise ToolRefusal(f"The search could not be run: {failure}") from None
        printed = await asyncio.to_thread(os.pread, output.fileno(), limit_bytes + 1, 0)
        complaint = os.pread(complaints.fileno(), _MAX_COMPLAINT, 0).decode("utf-8", "replace")
    ended_well = finished.exit_code <= _WORST_EXIT and not finished.timed_out
    return Searched(
        printed[:limit_bytes],
        complaint.strip(),
        finished.exit_code,
        ended_well and len(printed) <= limit_bytes,
    )
