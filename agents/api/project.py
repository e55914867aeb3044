"""Describing a project to agents for the first time: whether to ask, how, and that it is done."""

from __future__ import annotations

import asyncio

from django.http import HttpResponse

from agents.api.project_state import mark_initialised, needs_init
from agents.config.cache import configs
from agents.prompts.init import init_prompt
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.queries.workspaces import read_open_workspace, require_open
from workspaces.storage.reader import read


class NeedsInitView(ApiView):
    async def get(self, workspace_id: str) -> HttpResponse:
        workspace = await read(read_open_workspace, workspace_id)
        config = await configs().config_of(workspace_id)
        settings = config.settings
        needed = await asyncio.to_thread(
            needs_init,
            workspace.path,
            config.data_dir,
            context_paths=(*settings.context_paths, settings.initialize_as),
        )
        return json_answer({"needs_init": needed})


class MarkInitView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        """Done, or not wanted: clients do not ask again."""
        await read(require_open, workspace_id)
        config = await configs().config_of(workspace_id)
        await asyncio.to_thread(mark_initialised, config.data_dir)
        return empty_answer()


class InitPromptView(ApiView):
    async def get(self, workspace_id: str) -> HttpResponse:
        """What to prompt an agent with."""
        await read(require_open, workspace_id)
        config = await configs().config_of(workspace_id)
        return json_answer({"prompt": init_prompt(config.settings.initialize_as)})
