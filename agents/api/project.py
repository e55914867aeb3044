"""The first description of a project for agents: whether it is missing, its prompt, and its mark."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from django.http import HttpResponse

from agents.config.cache import configs
from agents.config.context_files import KNOWN_NAMES
from agents.config.edits.file import NotWritable
from agents.prompts.template import init_prompt
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.log.reader import read
from workspaces.queries.workspaces import read_open_workspace, require_open

MARK = "init"
_PATHS_LIMIT = 500
_ENTRIES_LIMIT = 1_000


def needs_init(folder: str, data_dir: str, *, context_paths: Sequence[str]) -> bool:
    """Whether the folder has files, no instructions for agents, and no mark."""
    if os.path.lexists(Path(data_dir, MARK)):
        return False
    named = dict.fromkeys((*KNOWN_NAMES, *context_paths[:_PATHS_LIMIT]))
    if any(_says_something(Path(folder, name)) for name in named):
        return False
    return any(not name.startswith(".") for name in _names(Path(folder)))


def mark_initialised(data_dir: str) -> None:
    """Callable twice. Raises ``NotWritable``."""
    try:
        folder = Path(data_dir)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in ((".gitignore", "*\n"), (MARK, "")):
            # Never through a link: the folder may have come with the project.
            with suppress(FileExistsError), (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its path is not valid"
        raise NotWritable(f"{data_dir} cannot be written: {reason.lower()}") from None


def _says_something(path: Path) -> bool:
    try:
        return bool(_names(path)) if path.is_dir() else path.is_file() and path.stat().st_size > 0
    except (OSError, ValueError):
        return False  # not ours to read, or no name at all


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, _ENTRIES_LIMIT)]
    except OSError:
        return []


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
        """Marks the project as done or declined: clients do not offer it again."""
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
