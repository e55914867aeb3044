"""Runs a search process and collects its output, with its error text apart."""

from __future__ import annotations

import asyncio
import os
import shutil
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agents.tools.contract import ToolContext, ToolRefusal
from agents.tools.limits import SEARCH_SECONDS
from agents.tools.shell.command import run
from agents.tools.shell.environment import marked_environment
from agents.tools.shell.process import ProcessFailed


@cache
def binary() -> str | None:
    """Returns the binary next to this interpreter, else one on the path, else ``None``."""
    own = Path(sysconfig.get_path("scripts")) / "rg"
    return str(own) if own.is_file() else shutil.which("rg")


def options(root: Path, *, hidden: bool) -> list[str]:
    """Returns options that ignore user configuration and links, and respect ``.gitignore``."""
    shared = ["--no-config", "--no-messages", "--no-follow", "--null", "--color=never"]
    if hidden:
        shared += ["--hidden", "--glob=!.git"]
    if not any((folder / ".git").exists() for folder in (root, *root.parents)):
        # Outside of a repository, ignore parent rules: a home folder may ignore everything.
        shared += ["--no-require-git", "--no-ignore-parent"]
    return shared


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

# The script first checks that the folder has not been replaced by a link since it was resolved.
# The output goes to a file: ripgrep writes each file's lines separately, and ten thousand small
# writes to a pipe would cost as much as the search. A line is kept whole in memory, so the
# process is limited to 4 GiB.
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
    complete: bool  # false after a timeout or at the size limit


async def search(
    argv: Sequence[str], *, root: Path, context: ToolContext, limit_bytes: int, given: bytes = b""
) -> Searched:
    """Runs a search in ``root``, a resolved folder, with ``given`` as its stdin.

    Raises ``ToolRefusal`` if the process cannot be started.
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
                sink=Collector(1),  # the output goes to the file
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
