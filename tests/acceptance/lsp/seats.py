"""A client in a workspace with language servers: a real one, and doubles that misbehave."""

import os
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.calling import call, run_call, until
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.processes import marked
from tests.acceptance.harness.stream import Event

BIN = Path(sys.executable).parent
# The default of 30 s is meant for people; a busy machine may take longer to start it.
PYRIGHT = {"command": str(BIN / "basedpyright-langserver"), "args": ["--stdio"], "timeout": 100}
DOUBLE = Path(__file__).parents[2] / "doubles" / "language_server.py"
STARTING, READY, ERROR, STOPPED, DISABLED = 1, 2, 3, 4, 5
PATIENCE_SECONDS = 240  # a checker of a whole language, on a machine that may be busy


@dataclass
class LspSeat:
    """A seat in a Python project, whose language servers can be found by a mark."""

    seat: Seat
    mark: str

    @property
    def path(self) -> Path:
        return self.seat.workspace.path

    def servers(self) -> list[int]:
        return marked(self.mark)

    async def lsps(self) -> dict[str, Any]:
        return dict(await self.seat.workspace.call("GET", "/lsps"))

    async def checked(self, session: str, file: str, text: str) -> str:
        """What the diagnostics tool says, once it says this: a call waits only so long."""
        check = call("lsp_diagnostics", file_path=file)

        async def has_text() -> str | None:
            content = str((await run_call(self.seat, session, check))["content"])
            return content if text in content else None

        return str(await until(has_text, f"{text} is found", PATIENCE_SECONDS))

    async def state(self, name: str, state: int, *, start: int = 0) -> dict[str, Any]:
        def fits(event: Event) -> bool:
            return (
                event.type == "lsp_event"
                and event.payload["type"] == "state_changed"
                and (event.payload["name"], event.payload["state"]) == (name, state)
            )

        found = await self.seat.stream.wait_for(fits, PATIENCE_SECONDS, start=start)
        return found.payload


async def sit(client: Client, folder: Path, *, yolo: bool = True, **env: str) -> LspSeat:
    mark = uuid.uuid4().hex
    given = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], "LSP_TEST": mark, **env}
    listed = [f"{name}={value}" for name, value in given.items()]
    return LspSeat(await take_seat(client, folder, yolo=yolo, env=listed), mark)


def double(mode: str, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(DOUBLE), mode], "filetypes": ["py"], **more}
