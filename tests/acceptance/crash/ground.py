"""What the tests of crashes share: patient servers, commands that leave a mark, the whole log."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.acceptance.folding import Fold
from tests.acceptance.harness.client import Client, Workspace
from tests.acceptance.harness.native import NativeSse
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeServer = Callable[..., Server]

# Nobody's claim lapses while the server is down; a dead worker's runs are free again soon.
PATIENT = {"CRUSH_SERVER_CREATE_GRACE": "600", "CRUSH_SERVER_DETACH_GRACE": "600"}
QUICK = {"CRUSH_LEASE": "2", "CRUSH_POLL": "0.2"}


def bash(command: str) -> str:
    return "bash " + json.dumps({"command": command, "description": "mark"})


async def log_of(client: Client, workspace: Workspace) -> Fold:
    """The whole log, folded from its first event."""
    reader = NativeSse(client.http, workspace.id, after=0)
    await reader.open()
    await reader.wait_for(lambda r: r.type == "stream.opened", 60)
    await reader.close()
    fold = Fold()
    for item in reader.received:
        fold.take(item.body)
    return fold
