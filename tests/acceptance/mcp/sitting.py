"""A client's seat in a workspace with MCP servers."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.acceptance.calling import until
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import EmbeddedServer, Server
from tests.acceptance.mcp.servers import DOUBLE, START_SECONDS, Distant, states

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeDistant = Callable[..., Distant]
NEVER = "0001-01-01T00:00:00Z"


async def sit(
    server: Server, connect: Connect, path: Path, *, yolo: bool = True, **more: Any
) -> Seat:
    """Attached, with the servers up that can be: a prompt waits only a second for them."""
    seat = await take_seat(connect(server), path, yolo=yolo, **more)
    names = [name for name, entry in _configured(path).items() if _starts(entry)]
    if names and not isinstance(server, EmbeddedServer):
        # There a worker hosts the servers, and it starts them for the first prompt.
        session = await seat.workspace.session()
        await seat.workspace.prompt(session, "[[n=1]]")
        await seat.stream.run_complete(session)
    for name in names:
        await until(partial(_has_started, seat, name), f"{name} has started", START_SECONDS + 20)
    return seat


def _configured(path: Path) -> dict[str, Any]:
    return dict(json.loads((path / "crush.json").read_text()).get("mcp", {}))


def _starts(entry: dict[str, Any]) -> bool:
    is_from_test = DOUBLE in entry.get("args", ()) or "url" in entry
    return is_from_test and not entry.get("disabled") and "--hang" not in entry.get("args", ())


async def _has_started(seat: Seat, name: str) -> bool:
    return (await states(seat)).get(name, {}).get("state") not in {None, "starting"}
