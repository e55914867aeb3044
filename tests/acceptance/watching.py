"""What hostile and secretive tests look at beside the answers: the server's log, and what is stored."""

import asyncio
import re
import sqlite3
from collections.abc import Mapping
from typing import Any

from tests.acceptance.harness.client import Workspace
from tests.acceptance.harness.shapes import Server, Shape

_LOUD = re.compile(r"^\S+Z (error|critical) |Traceback \(most recent|Unhandled|never awaited")


class LogWatch:
    """The log from now on; the server may be older than the test."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._read = {p.name: len(p.log_text()) for p in server.processes()}

    def texts(self) -> list[str]:
        """One for each process, in the order in which they start."""
        return [
            process.log_text()[self._read.get(process.name, 0) :]
            for process in self._server.processes()
        ]

    def text(self) -> str:
        return "\n".join(self.texts())

    def loud(self) -> list[str]:
        """Lines above a warning, and the beginnings of stack traces."""
        return [line for line in self.text().splitlines() if _LOUD.search(line)]


async def stored(server: Server, workspace: Workspace) -> Mapping[str, Any]:
    """Everything that a refused request could have left behind."""
    http = workspace.client.http
    state: dict[str, Any] = {
        "workspaces": await workspace.client.workspaces(),
        "snapshot": await http.call("GET", f"/api/workspaces/{workspace.id}/snapshot"),
        "skip": await workspace.skips_permissions(),
        "prompted": await workspace.user_messages(),
    }
    if server.shape is Shape.EMBEDDED:
        state["rows"] = await asyncio.to_thread(row_counts, server)
    return state


def row_counts(server: Server) -> dict[str, int]:
    """Rows of each of our tables in an embedded server's database."""
    database = server.data_dir / "server.sqlite3"
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        names = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if name.startswith(("agents_", "permissions_", "workspaces_"))
        ]
        counts = {
            name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
            for name in names
        }
    connection.close()
    return counts
