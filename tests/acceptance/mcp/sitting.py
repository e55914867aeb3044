"""A client's seat in a workspace with MCP servers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server
from tests.acceptance.mcp.servers import Distant

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeDistant = Callable[..., Distant]
NEVER = "0001-01-01T00:00:00Z"


async def sit(
    server: Server, connect: Connect, path: Path, *, yolo: bool = True, **more: Any
) -> Seat:
    return await take_seat(connect(server), path, yolo=yolo, **more)
