"""Endpoints for a project's first instructions: whether they are missing, and their prompt."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import ClassVar

from django.http import HttpResponse

from agents.config.cache import configs
from agents.config.context_files import KNOWN_NAMES
from agents.config.edits.file import NotWritable
from agents.prompts.render import init_prompt
from workspaces.access import Right
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.log.reader import read
from workspaces.placement.remote_place import remote_place
from workspaces.queries.workspaces import read_open_workspace, require_open

MARK = "init"
_PATHS_LIMIT = 500
_ENTRIES_LIMIT = 1_000


def needs_init(folder: str, data_dir: str, *, context_paths: Sequence[str]) -> bool:
    """Whether the folder has files, no instructions for agents, and no mark."""
    if os.path.lexists(Path(data_dir, MARK)):
        return False
    named = dict.fromkeys((*KNOWN_NAMES, *context_paths[:_PATHS_LIMIT]))
    if any(_has_text(Path(folder, name)) for name in named):
        return False
    return any(not name.startswith(".") for name in _names(Path(folder)))


def mark_initialised(data_dir: str) -> None:
    """Creates the mark. May be called twice. Raises ``NotWritable``."""
    try:
        folder = Path(data_dir)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in ((".gitignore", "*\n"), (MARK, "")):
            # "x" never follows a link: the folder may have come with the project.
            with suppress(FileExistsError), (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its path is not valid"
        raise NotWritable(f"{data_dir} cannot be written: {reason.lower()}") from None


def _has_text(path: Path) -> bool:
    try:
        return bool(_names(path)) if path.is_dir() else path.is_file() and path.stat().st_size > 0
    except (OSError, ValueError):
        return False  # not readable, or not a valid name


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, _ENTRIES_LIMIT)]
    except OSError:
        return []


class NeedsInitView(ApiView):
    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})

    async def get(self, workspace_id: str) -> HttpResponse:
        workspace = await read(read_open_workspace, workspace_id)
        if remote_place(workspace.path) is not None:
            return json_answer({"needs_init": False})
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
    rights: ClassVar = {"post": Right.PROMPT}
    folder_methods: ClassVar = frozenset({"post"})

    async def post(self, workspace_id: str) -> HttpResponse:
        """Marks the instructions as written or declined: clients do not offer them again."""
        await read(require_open, workspace_id)
        config = await configs().config_of(workspace_id)
        await asyncio.to_thread(mark_initialised, config.data_dir)
        return empty_answer()


class InitPromptView(ApiView):
    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})

    async def get(self, workspace_id: str) -> HttpResponse:
        """Returns the prompt that writes the instructions."""
        await read(require_open, workspace_id)
        config = await configs().config_of(workspace_id)
        return json_answer({"prompt": init_prompt(config.settings.initialize_as)})
