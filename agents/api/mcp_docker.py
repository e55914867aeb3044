"""Docker's gateway of MCP servers, taken into the user's stored configuration and out of it."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

from django.http import HttpResponse

from agents.config.cache import configs
from agents.config.edits.changes import StoredPlace, change_stored
from agents.config.edits.choices import StoredScope, remove_value, set_value
from agents.runner.mcp_servers import mcp_host
from agents.runner.own_environment import server_env
from agents.tools.shell.environment import user_environment
from agents.tools.shell.output import BoundedOutput
from agents.tools.shell.process import ProcessFailed
from agents.tools.shell.pumped import run
from workspaces.api.answers import empty_answer
from workspaces.api.api_view import ApiView
from workspaces.queries.workspaces import read_open_workspace
from workspaces.storage.errors import BadField
from workspaces.storage.ids import new_id
from workspaces.storage.reader import read

_KEY = "mcp.docker"
_SERVER = {"type": "stdio", "command": "docker", "args": ["mcp", "gateway", "run"]}
_LOOK_SECONDS = 10.0
_OUTPUT_BYTES = 2_000


class McpDockerEnableView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        workspace = await read(read_open_workspace, workspace_id)
        env = await configs().env_of(workspace_id) or server_env()
        await _require_gateway(Path(workspace.path), dict(env))

        def change(place: StoredPlace) -> None:
            set_value(StoredScope.USER, _KEY, _SERVER, data_dir=place.data_dir)

        await change_stored(workspace_id, StoredScope.USER, change)
        await mcp_host().open(workspace_id)
        return empty_answer()


class McpDockerDisableView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        """Does nothing where it is not stored."""

        def change(place: StoredPlace) -> None:
            remove_value(StoredScope.USER, _KEY, data_dir=place.data_dir)

        await change_stored(workspace_id, StoredScope.USER, change)
        await mcp_host().open(workspace_id)
        return empty_answer()


async def _require_gateway(folder: Path, env: dict[str, str]) -> None:
    """Raises ``BadField`` where the gateway could not be started."""
    docker = await asyncio.to_thread(shutil.which, "docker", path=env.get("PATH") or os.defpath)
    if docker is None:
        raise BadField("docker was not found: install Docker Desktop, or put docker into the PATH")
    output = BoundedOutput(_OUTPUT_BYTES)
    try:
        finished = await run(
            [docker, "mcp", "version"],
            cwd=folder,
            env=user_environment(
                env, process_mark=new_id(), server_mark=mcp_host().server_mark, columns=0
            ),
            sink=output,
            timeout_seconds=_LOOK_SECONDS,
        )
    except ProcessFailed as failure:
        raise BadField(str(failure)) from None
    if finished.exit_code:
        raise BadField(
            "docker has no MCP gateway: install the plugin docker-mcp, or a newer Docker Desktop"
        )
