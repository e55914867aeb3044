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
from tests.acceptance.mcp.servers import DOUBLE, Distant, states

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeDistant = Callable[..., Distant]
NEVER = "0001-01-01T00:00:00Z"


async def sit(
    server: Server, connect: Connect, path: Path, *, yolo: bool = True, **more: Any
) -> Seat:
    """Attached, with the servers up that can be: a prompt waits only a second for them."""
    seat = await take_seat(connect(server), path, yolo=yolo, **more)
    if isinstance(server, EmbeddedServer):  # others start them with the first prompt
        for name, entry in json.loads((path / "crush.json").read_text()).get("mcp", {}).items():
            if _comes_up(entry):
                await until(partial(_has_started, seat, name), f"{name} has started", 40)
    return seat


def _comes_up(entry: dict[str, Any]) -> bool:
    is_ours = DOUBLE in entry.get("args", ()) or "url" in entry
    return is_ours and not entry.get("disabled") and "--hang" not in entry.get("args", ())


async def _has_started(seat: Seat, name: str) -> bool:
    return (await states(seat)).get(name, {}).get("state") not in {None, "starting"}
