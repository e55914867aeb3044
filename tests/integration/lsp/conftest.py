"""A workspace of the test's own with language servers that behave as they are told."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agents.config.settings import LspSettings
from agents.tools.contract import RequiredPermission, ToolOutcome
from agents.tools.files import text_file
from agents.tools.lsp.handshake import load_protocol
from agents.tools.lsp.plans import plans_of
from agents.tools.lsp.service import WorkspaceLanguages
from agents.tools.lsp.states import LanguageServerStatus, ServerStatus
from agents.tools.lsp.tools import tools_of
from agents.tools.lsp.workspace import Planned, WorkspaceServers
from tests.doubles import language_server
from tests.doubles.tool_context import ToolDoubles, make_tool_doubles


@pytest.fixture(scope="session", autouse=True)
def loaded_protocol() -> None:
    """Takes half a second, which is not to be taken from the first test's waits."""
    asyncio.run(load_protocol())


@dataclass
class Bench:
    root: Path
    doubles: ToolDoubles
    configured: dict[str, LspSettings]
    servers: WorkspaceServers
    told: list[ServerStatus]
    forgotten: list[str] = field(default_factory=list)
    asked: list[RequiredPermission] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    calls: int = 0
    wait_seconds: float = 60.0  # for servers that answer; the others name a time

    @property
    def languages(self) -> WorkspaceLanguages:
        return WorkspaceLanguages(
            self.servers, wait_seconds=self.wait_seconds, short_wait_seconds=0.05
        )

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.write_text(text, newline="")
        return path

    def mark_read(self, path: Path) -> None:
        self.doubles.files.marks[str(path)] = text_file.mark(path)

    async def call(self, name: str, /, **arguments: Any) -> ToolOutcome:
        """Parsed, asked for (which is allowed) and run, as a run does it."""
        self.calls += 1
        context = replace(self.doubles.context, call_id=str(self.calls))
        tool = tools_of(self.servers)[name]
        args = tool.parse(arguments)
        question = await tool.required_permission(args, context)
        if question is not None:
            self.asked.append(question)
        return await tool.run(args, context)

    async def until(
        self, *states: LanguageServerStatus, name: str = "double"
    ) -> list[ServerStatus]:
        """Waits until these states of the server were told, in this order."""
        async with asyncio.timeout(60):
            while True:
                told = [s for s in self.told if s.name == name and not s.only_diagnostics]
                rest = iter(status.state for status in told)
                if all(state in rest for state in states):
                    return told
                self.news.clear()
                await self.news.wait()


def double(mode: str, **more: Any) -> LspSettings:
    program = str(Path(language_server.__file__))
    options: dict[str, Any] = {"filetypes": ("py",), "timeout_seconds": 60.0, **more}
    return LspSettings("double", command=sys.executable, args=(program, mode), **options)


MakeBench = Callable[..., Bench]


@pytest_asyncio.fixture
async def make_bench(tmp_path: Path) -> AsyncIterator[MakeBench]:
    made: list[Bench] = []

    def make(*settings: LspSettings, pause: float = 0.02, wait_seconds: float = 60.0) -> Bench:
        root = (tmp_path / f"project-{len(made)}").resolve()
        root.mkdir()
        doubles = make_tool_doubles(root)
        env = {"PATH": os.environ["PATH"], "HOME": str(root)}
        configured = {one.name: one for one in settings}

        async def plan() -> Planned:
            found = plans_of(root, configured=configured, starts_known=False, env=env)
            return Planned(root, env, found)

        def tell(status: ServerStatus) -> None:
            bench.told.append(status)
            bench.news.set()

        servers = WorkspaceServers(
            plan, notify=tell, forget=lambda n: bench.forgotten.append(n), first_pause_seconds=pause
        )
        bench = Bench(root, doubles, configured, servers, [], wait_seconds=wait_seconds)
        made.append(bench)
        return bench

    yield make
    for bench in made:
        await bench.servers.close()
