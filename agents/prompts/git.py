"""Asks git what a repository looks like, without letting the repository run anything.

A repository's own configuration can name programs: for its file monitor, filters,
signatures, pagers, missing objects. All of them are switched off here. What cannot be
found out in time is left out.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from agents.prompts.facts import GitFacts
from agents.tools.shell.process import ProcessFailed
from agents.tools.shell.pumped import run
from agents.tools.shell.reaper import PROCESS_MARK, SERVER_MARK
from workspaces.storage.ids import new_id

SECONDS = 2.0  # for all of it: a first prompt waits
STATUS_LINES = 20
COMMITS = 5
LINE_CHARS = 160
KEPT = 500
_OUTPUT_LIMIT = 256 << 10
_FILTERS_LIMIT = 200

# Of a workspace's environment, what git needs; above all none of git's own variables.
_PASSED = ("PATH", "HOME", "XDG_CONFIG_HOME", SERVER_MARK, "TMPDIR")
_QUIET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}
_OFF = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "log.showSignature": "false",
    "status.submoduleSummary": "false",
    "diff.ignoreSubmodules": "all",
    "submodule.recurse": "false",
    "color.ui": "false",
}
_FILTERS = r"^filter\..*\.(clean|smudge|process|required)$"


class GitMemory:
    """What was found when a session began: a prompt that changes from run to run is never cached."""

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
    """The process's own."""
    return GitMemory()


async def git_facts(working_dir: str, env: Mapping[str, str]) -> GitFacts | None:
    """``None`` where there is no repository. Raises nothing."""
    root = await asyncio.to_thread(_root_above, working_dir)
    if root is None:
        return None
    ask = _Git(working_dir, root, env)
    try:
        async with asyncio.timeout(SECONDS):
            await ask.switch_filters_off()
            # A group waits for both, also when it is cancelled: nothing of them is left behind.
            async with asyncio.TaskGroup() as both:
                status = both.create_task(
                    ask.lines("status", "--porcelain=v1", "--branch", "--ignore-submodules=all")
                )
                log = both.create_task(
                    ask.lines(
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
    def __init__(self, working_dir: str, root: Path, env: Mapping[str, str]) -> None:
        self._folder = Path(working_dir)
        self._env = {name: env[name] for name in _PASSED if name in env} | _QUIET
        # A configured work tree could be any folder, whose names would then be listed.
        self._env["GIT_WORK_TREE"] = str(root)
        self._off = dict(_OFF)

    async def switch_filters_off(self) -> None:
        """Only the repository's own: its user's may stay, or their files would seem changed."""
        asked = ("--show-scope", "--includes", "-z", "--name-only", "--get-regexp", _FILTERS)
        words = (await self._output("config", *asked)).split("\0")
        scoped = list(zip(words[::2], words[1::2], strict=False))
        for scope, key in scoped[:_FILTERS_LIMIT]:
            if scope in {"local", "worktree"}:
                self._off[key] = "false" if key.endswith(".required") else ""

    async def lines(self, *arguments: str) -> list[str]:
        return (await self._output(*arguments)).splitlines()

    async def _output(self, *arguments: str) -> str:
        """Nothing when it fails."""
        program = await asyncio.to_thread(shutil.which, "git", path=self._env.get("PATH"))
        if program is None:
            return ""
        off = {"GIT_CONFIG_COUNT": str(len(self._off))}
        for index, (key, value) in enumerate(self._off.items()):
            off |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
        kept = _Kept()
        try:
            with open(os.devnull, "wb") as nowhere:  # noqa: PTH123, ASYNC230  no disk behind it
                finished = await run(
                    [program, "--no-pager", *arguments],
                    cwd=self._folder,
                    env={**self._env, **off, PROCESS_MARK: new_id()},
                    sink=kept,
                    timeout_seconds=2 * SECONDS,  # it is cancelled before
                    stderr=nowhere.fileno(),
                )
        except (ProcessFailed, OSError):
            return ""
        return kept.data.decode("utf-8", "replace") if finished.exit_code == 0 else ""


class _Kept:
    def __init__(self) -> None:
        self.data = bytearray()

    def feed(self, chunk: bytes) -> bool:
        self.data += chunk[: _OUTPUT_LIMIT - len(self.data)]
        return True


def _root_above(working_dir: str) -> Path | None:
    folder = Path(working_dir)
    places = (folder, *folder.parents)
    return next((place for place in places if os.path.lexists(place / ".git")), None)
