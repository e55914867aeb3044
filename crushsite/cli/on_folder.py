"""A session on a data folder: through the server that runs there, or else in this process.

Only one process may work on a folder. A prompt that finds another process at work uses its private
server, and takes over when that process ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from agents.states import Answer
from crushsite.cli.session import (
    Choices,
    Item,
    OverServer,
    Pending,
    PromptRefused,
    PromptSession,
)
from crushsite.server_client import find_running_server
from crushsite.storage import ensure_migrated, folder_lock, held_by

POLL_SECONDS = 0.1
LOCK_TIMEOUT_SECONDS = 30.0  # by then a process that holds the lock listens or has ended


class OnFolder:
    def __init__(self, folder: Path, path: str, *, works: bool) -> None:
        self._folder = folder
        self._path = path
        self._works = works
        self._now: PromptSession | None = None
        self._is_ours = False  # this process holds the folder's lock
        self._may_end = False  # the server that we use is temporary and will not restart
        self._lock = ExitStack()

    @property
    def is_only_stored(self) -> bool:
        """Whether this process stores prompts without running them."""
        return self._is_ours and not self._works

    async def open(self) -> None:
        if self._now is not None and (self._is_ours or not self._may_end):
            await self._now.open()
            return
        chosen = await self._choose()
        try:
            await chosen.open()
        except BaseException:
            await chosen.close()
            self._lock.close()
            self._is_ours = False
            raise
        # Only now: an answer given meanwhile would reach a workspace that is not open.
        self._now = chosen

    async def _choose(self) -> PromptSession:
        loop = asyncio.get_running_loop()
        until = loop.time() + LOCK_TIMEOUT_SECONDS
        while True:
            server = await asyncio.to_thread(find_running_server, self._folder)
            if server is not None:
                self._may_end = server.is_temporary
                return OverServer(self._folder, server, self._path)
            with ExitStack() as stack:
                if stack.enter_context(folder_lock(self._folder)):
                    self._lock = stack.pop_all()
                    self._is_ours = True
                    from crushsite.cli.in_process import InProcess  # noqa: PLC0415  takes long

                    await asyncio.to_thread(ensure_migrated)
                    return InProcess(self._folder, self._path, works=self._works, is_alone=True)
            # The process that holds the lock is starting or stopping.
            if loop.time() > until:
                raise PromptRefused(held_by(self._folder))
            await asyncio.sleep(POLL_SECONDS)

    async def close(self) -> None:
        try:
            if self._now is not None:
                await self._now.close()
        finally:
            self._lock.close()

    # -- forwarded to the chosen session

    @property
    def _there(self) -> PromptSession:
        if self._now is None:
            raise PromptRefused("The session is not open.")
        return self._now

    async def ensure_session(self, session_id: str) -> str:
        return await self._there.ensure_session(session_id)

    async def rename(self, session_id: str, *, title: str) -> None:
        await self._there.rename(session_id, title=title)

    def feed(self, after: int | None) -> AsyncIterator[Item]:
        return self._there.feed(after)

    async def session_named(self, wanted: str) -> str:
        return await self._there.session_named(wanted)

    async def prompt(
        self, session_id: str, text: str, *, run_id: str, choices: Choices | None = None
    ) -> None:
        await self._there.prompt(session_id, text, run_id=run_id, choices=choices)

    async def answer(self, request_id: str, answer: Answer, *, folder: str = "") -> bool:
        return await self._there.answer(request_id, answer, folder=folder)

    async def answer_batch(
        self, batch_id: str, responses: Sequence[Mapping[str, Any]] | None
    ) -> bool:
        return await self._there.answer_batch(batch_id, responses)

    async def pending(self) -> Pending:
        return await self._there.pending()

    async def jobs_that_end(self) -> list[str]:
        return await self._there.jobs_that_end()

    async def wait_for_others(self, note: Callable[[str], None]) -> None:
        await self._there.wait_for_others(note)

    async def cancel(self, session_id: str) -> None:
        await self._there.cancel(session_id)
