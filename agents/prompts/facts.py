"""The facts that a system prompt contains. ``git`` gathers them and ``main`` renders them. Pure."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from agents.config.context_files import ContextFile, find_context_files
from agents.config.settings import Attribution, Settings
from agents.skills.skill import Skill
from agents.tools.shell.command import run
from agents.tools.shell.identity import PROCESS_MARK, SERVER_MARK
from agents.tools.shell.process import ProcessFailed
from agents.tools.shell.read_only import safe_git_variables
from workspaces.log.ids import new_id


@dataclass(frozen=True, slots=True)
class GitFacts:
    """The repository, as it was when the session began."""

    branch: str = ""
    status: tuple[str, ...] = ()  # a line each, as git's short status
    more_changes: int = 0  # the number of changes that are not listed
    commits: tuple[str, ...] = ()  # newest first


@dataclass(frozen=True, slots=True)
class PromptFacts:
    working_dir: str
    platform: str
    date: str  # without the time: a prompt that changes with each call cannot be cached
    git: GitFacts | None = None  # ``None``: not a repository
    context: Sequence[ContextFile] = field(default=(), repr=False)
    skills: Sequence[Skill] = ()
    attribution: Attribution | None = None  # ``None``: the prompt has no section about it
    model_name: str = ""
    mcp_instructions: str = field(default="", repr=False)
    prefix: str = field(default="", repr=False)  # the provider's text before everything else


SECONDS = 2.0  # for all commands together, because a session's first prompt waits for them
STATUS_LINES = 20
COMMITS = 5
LINE_CHARS = 160
KEPT = 500
_OUTPUT_LIMIT = 256 << 10

# The variables of a workspace's environment that git needs. Git's own variables are not passed.
_PASSED = ("PATH", "HOME", "XDG_CONFIG_HOME", SERVER_MARK, "TMPDIR")


class GitMemory:
    """Remembers the facts from the start of each session.

    Providers could not cache a prompt that changes from run to run.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], GitFacts | None] = {}

    async def facts_of(
        self, session_id: str, working_dir: str, env: Mapping[str, str]
    ) -> GitFacts | None:
        key = (session_id, working_dir)
        if key not in self._known:
            facts = await git_facts(working_dir, env)
            while len(self._known) >= KEPT:
                self._known.pop(next(iter(self._known)))
            self._known.setdefault(key, facts)
        return self._known.get(key)


@cache
def git_memory() -> GitMemory:
    """Returns the git memory of this process."""
    return GitMemory()


async def git_facts(working_dir: str, env: Mapping[str, str]) -> GitFacts | None:
    """Returns the repository's state, or ``None`` without a repository. Raises nothing."""
    if not await asyncio.to_thread(_is_in_repository, working_dir):
        return None
    own = {name: env[name] for name in _PASSED if name in env} | {"LC_ALL": "C"}
    try:
        async with asyncio.timeout(SECONDS):
            safe = await safe_git_variables(Path(working_dir), own, shows_content=False)
            if safe is None:
                return GitFacts()
            git = _Git(working_dir, {**own, **safe})
            # A group waits for both, also when it is cancelled, so that no command is left running.
            async with asyncio.TaskGroup() as both:
                status = both.create_task(
                    git.lines("status", "--porcelain=v1", "--branch", "--ignore-submodules=all")
                )
                log = both.create_task(
                    git.lines(
                        "log", f"--max-count={COMMITS}", "--format=%h %s", "--no-show-signature"
                    )
                )
    except TimeoutError:
        return GitFacts()
    return _facts(status.result(), log.result())


def _facts(status: Sequence[str], log: Sequence[str]) -> GitFacts:
    branch = next((line[3:] for line in status if line.startswith("## ")), "")
    changes = [line for line in status if not line.startswith("## ")]
    return GitFacts(
        branch=branch[:LINE_CHARS],
        status=tuple(line[:LINE_CHARS] for line in changes[:STATUS_LINES]),
        more_changes=max(0, len(changes) - STATUS_LINES),
        commits=tuple(line[:LINE_CHARS] for line in log[:COMMITS]),
    )


class _Git:
    def __init__(self, working_dir: str, env: Mapping[str, str]) -> None:
        self._folder = Path(working_dir)
        self._env = env

    async def lines(self, *arguments: str) -> list[str]:
        return (await self._output(*arguments)).splitlines()

    async def _output(self, *arguments: str) -> str:
        """Returns the output of a git command, or an empty text if it fails."""
        program = await asyncio.to_thread(shutil.which, "git", path=self._env.get("PATH"))
        if program is None:
            return ""
        kept = _CachedGitState()
        try:
            with open(os.devnull, "wb") as nowhere:  # noqa: PTH123, ASYNC230  no disk behind it
                finished = await run(
                    [program, "--no-pager", "-c", "color.ui=false", *arguments],
                    cwd=self._folder,
                    env={**self._env, PROCESS_MARK: new_id()},
                    sink=kept,
                    timeout_seconds=2 * SECONDS,  # the caller's timeout cancels it before
                    stderr=nowhere.fileno(),
                )
        except (ProcessFailed, OSError):
            return ""
        return kept.data.decode("utf-8", "replace") if finished.exit_code == 0 else ""


class _CachedGitState:
    def __init__(self) -> None:
        self.data = bytearray()

    def feed(self, chunk: bytes) -> bool:
        self.data += chunk[: _OUTPUT_LIMIT - len(self.data)]
        return True


def _is_in_repository(working_dir: str) -> bool:
    folder = Path(working_dir)
    return any(os.path.lexists(place / ".git") for place in (folder, *folder.parents))


async def gather_facts(
    settings: Settings,
    *,
    workspace: str,
    working_dir: str,
    session_id: str,
    env: Mapping[str, str],
    skills: Sequence[Skill] = (),
    model_name: str = "",
    mcp_instructions: str = "",
    prefix: str = "",
) -> PromptFacts:
    """Gathers the facts for a prompt. Takes at most a few seconds; bad files raise nothing."""
    async with asyncio.TaskGroup() as both:
        context = both.create_task(
            asyncio.to_thread(
                find_context_files,
                workspace,
                context_paths=settings.context_paths,
                global_context_paths=settings.global_context_paths,
            )
        )
        git = both.create_task(git_memory().facts_of(session_id, working_dir, env))
    return PromptFacts(
        working_dir=working_dir,
        platform=platform.system().lower(),
        date=datetime.now(UTC).date().isoformat(),
        git=git.result(),
        context=context.result(),
        skills=skills,
        attribution=settings.attribution,
        model_name=model_name,
        mcp_instructions=mcp_instructions,
        prefix=prefix,
    )
