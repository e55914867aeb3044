"""A workspace with a session in a real database, and this process as its jobs' host."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest_asyncio

from agents.config.cache import configs
from agents.jobs.adoption import settle
from agents.jobs.host import JobHost, job_host
from agents.jobs.workspace_jobs import WorkspaceJobs
from agents.models import Job
from agents.tools.shell.command import shell_command
from agents.tools.shell.identity import PROCESS_MARK
from agents.tools.shell.jobs import JobOrder
from workspaces.actions.sessions import create_session
from workspaces.actions.workspaces import Opening, open_workspace
from workspaces.log.ids import new_id
from workspaces.log.reader import read, stop_reading
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer


@dataclass
class Place:
    workspace_id: str
    session_id: str
    path: Path
    host: JobHost

    @property
    def jobs(self) -> WorkspaceJobs:
        return WorkspaceJobs(self.workspace_id, self.session_id)

    def order(self, command: str) -> JobOrder:
        mark = new_id()
        env = {"PATH": os.environ["PATH"], PROCESS_MARK: mark}
        return JobOrder(command, "d", self.path, shell_command(command, env), env, mark)

    async def row(self, job_id: str) -> Job:
        return await read(Job.objects.get, pk=job_id)


@pytest_asyncio.fixture
async def place(transactional_db: None, tmp_path: Path) -> AsyncIterator[Place]:
    configs.cache_clear()
    job_host.cache_clear()
    path = tmp_path.resolve()

    def make(tx: Transaction) -> tuple[str, str]:
        workspace = open_workspace(tx, Opening(str(path), str(path / "data")))
        return workspace.pk, str(create_session(tx, workspace.pk, title="t")["id"])

    writer.start(publish=None, loop=asyncio.get_running_loop())
    workspace_id, session_id = await writer.write("", make)
    host = job_host()
    await host.start(server_mark=new_id(), is_alone=False, settle=settle)
    yield Place(workspace_id, session_id, path, host)
    await host.stop()
    await asyncio.to_thread(writer.stop)
    await asyncio.to_thread(stop_reading)
    job_host.cache_clear()
