"""What a scenario needs of a server, whichever interface it speaks."""

from pathlib import Path
from typing import Protocol

from tests.bench.watch import Watch


class Wire(Protocol):
    """One workspace of one server. Every session id is the server's own."""

    async def open(self, folder: Path) -> None:
        """Make the folder a workspace and stay attached to it."""

    async def session(self) -> str: ...

    async def prompt(self, session: str, text: str) -> float:
        """Seconds until the server accepted it."""

    async def cancel(self, session: str) -> None: ...

    async def subscribe(self, watch: Watch, *, sampled: bool = True) -> None:
        """Return when attached. Unless `sampled`, only the words at each run's end are counted: a
        thousand subscribers read word by word would measure the reader."""

    async def warm(self, calls: int) -> None:
        """Open as many connections as there will be calls at a time."""

    def close(self) -> None: ...
