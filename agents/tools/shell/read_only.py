"""Decides whether a command reads only inside the workspace, with links followed like ``view``.

It accesses the disk (names and links only): call it in a thread.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path

from agents.config.mask import is_secret_name
from agents.skills.skill import is_skill_file
from agents.tools.contract import ToolContext, ToolRefusal
from agents.tools.files.committed import READING_VARIABLES
from agents.tools.files.paths import is_inside, resolve
from agents.tools.shell.command import run
from agents.tools.shell.identity import PROCESS_MARK
from agents.tools.shell.process import ProcessFailed
from permissions.policy.reads import Reads
from workspaces.log.ids import new_id

_MAX_NAMES = 5_000
_MARKS = "*?[{"
_MAX_FOLDERS = 64
_MAX_PATHS = 2_000
# Their names resemble those of secrets.
_HARMLESS = {"PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY"}


class _Outside(Exception):
    pass


def reads_inside(reads: Reads, context: ToolContext) -> bool:
    """Returns whether all reads are inside the workspace; false also if that is unknown."""
    if reads.folders and "CDPATH" in context.env:
        return False
    try:
        bases = _bases(reads.folders, context)
        if len(bases) * (len(reads.paths) + len(reads.patterns)) > _MAX_PATHS:
            return False
        for base, path in product(bases, reads.paths):
            _inside(base / path, context)
        budget = [_MAX_NAMES]
        for base, pattern in product(bases, reads.patterns):
            _check_matches(base, pattern, context, budget)
    except (_Outside, ToolRefusal, OSError, ValueError):
        return False
    return True


def shows_secrets(reads: Reads, context: ToolContext) -> bool:
    """Returns whether the command may print a variable that contains a secret."""
    shown = context.env if reads.shows_environment else reads.variables & context.env.keys()
    return any(context.env[name] and _is_secret(name, context.env[name]) for name in shown)


def _is_secret(name: str, value: str) -> bool:
    if name in _HARMLESS:
        return False
    head, at, _ = value.partition("@")
    return is_secret_name(name) or bool(at and "://" in head and ":" in head.partition("://")[2])


def _bases(folders: list[str], context: ToolContext) -> set[Path]:
    """Returns every folder that may be current: the ``cd`` commands may run in any order."""
    bases = {context.working_dir}
    for _ in folders:
        bases |= {_inside(base / folder, context) for base in bases for folder in folders}
        if len(bases) > _MAX_FOLDERS:
            raise _Outside
    return bases


def _inside(path: Path, context: ToolContext) -> Path:
    resolved = resolve(str(path), context)
    if is_inside(resolved, context.working_dir) or is_skill_file(resolved, context.skills):
        return resolved
    raise _Outside


def _check_matches(base: Path, pattern: str, context: ToolContext, budget: list[int]) -> None:
    """Checks that all possible expansions of a pattern, and the folders above them, are inside."""
    if pattern.startswith("/"):
        # The part before the first wildcard is an ordinary path.
        fixed = pattern[: min(pattern.find(mark) for mark in _MARKS if mark in pattern)]
        base, pattern = Path(fixed.rpartition("/")[0] or "/"), pattern[fixed.rfind("/") + 1 :]
    reached = [_inside(base, context)]
    for part in filter(None, pattern.split("/")):
        following: list[Path] = []
        for folder in reached:
            budget[0] -= 1
            if not any(mark in part for mark in _MARKS):
                following.append(_inside(folder / part, context))
            elif folder.is_dir():
                following += [_inside(path, context) for path in _named(folder, part, budget)]
            if budget[0] < 0:
                raise _Outside
        reached = following


def _named(folder: Path, part: str, budget: list[int]) -> list[Path]:
    """Lists matching names; brackets and braces match anything, because shells differ."""
    part = "*" if any(mark in part for mark in "[{\\") else part
    found: list[Path] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            budget[0] -= 1
            if budget[0] < 0:
                raise _Outside
            if fnmatchcase(entry.name, part):
                found.append(folder / entry.name)
    return found


MAX_FILTER_KEYS = 200
_MAX_CONFIG_BYTES = 256 << 10
_SECONDS = 2.0

_VARIABLES = READING_VARIABLES | {"GIT_PAGER": "cat"}
_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "diff.autoRefreshIndex": "false",  # or ``git diff`` writes the index
    "diff.ignoreSubmodules": "dirty",  # else git looks into each with the submodule's settings
    "diff.submodule": "short",
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.x509.program": "false",
    "gpg.ssh.program": "false",
    "log.showSignature": "false",
    "safe.bareRepository": "explicit",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
}
_FILTER = re.compile(r"filter\..*\.(?:clean|smudge|process|required)", re.DOTALL)
# These name programs or files for commands that show content, and no variable overrides them.
_CANNOT_STOP = re.compile(
    r"diff\.external|diff\..*\.(?:command|textconv)|log\.diffmerges|include(?:if\..*)?\.path"
    r"|submodule\..*\.ignore|core\.alternaterefscommand",
    re.DOTALL,
)
# In these sections no other setting starts a program in commands that only read. Later versions
# of git may add sections: a setting in an unknown section may do anything.
_KNOWN_SECTIONS = frozenset(
    [
        "advice",
        "alias",
        "am",
        "annex",
        "apply",
        "author",
        "blame",
        "branch",
        "browser",
        "bundle",
        "checkout",
        "clean",
        "color",
        "column",
        "commit",
        "committer",
        "core",
        "credential",
        "diff",
        "difftool",
        "extensions",
        "feature",
        "fetch",
        "filter",
        "format",
        "fsck",
        "gc",
        "gitflow",
        "git-town",
        "github",
        "gitk",
        "gpg",
        "grep",
        "gui",
        "guitool",
        "help",
        "http",
        "https",
        "i18n",
        "include",
        "includeif",
        "index",
        "init",
        "instaweb",
        "interactive",
        "lfs",
        "log",
        "mailmap",
        "maintenance",
        "man",
        "merge",
        "mergetool",
        "notes",
        "pack",
        "pager",
        "promisor",
        "protocol",
        "pull",
        "push",
        "rebase",
        "receive",
        "remote",
        "rerere",
        "safe",
        "sendemail",
        "sequence",
        "showbranch",
        "sparse",
        "stash",
        "status",
        "submodule",
        "svn",
        "tag",
        "tar",
        "trailer",
        "transfer",
        "uploadarchive",
        "uploadpack",
        "url",
        "user",
        "versionsort",
        "vscode",
        "web",
        "worktree",
    ]
)


async def safe_git_variables(
    folder: Path, env: Mapping[str, str], *, shows_content: bool
) -> Mapping[str, str] | None:
    """Returns variables for git in ``folder``; ``None`` if git may run the repository's programs.

    ``shows_content``: the command may show more than names and subjects. Takes at most two
    seconds. Never raises.
    """
    root, is_bare = await asyncio.to_thread(_repository_of, folder)
    if is_bare or "GIT_DIR" in env:
        return None
    filters: dict[str, str] = {}
    if root is not None:
        keys = await _own_keys(folder, env)
        if keys is None or any(key.partition(".")[0] not in _KNOWN_SECTIONS for key in keys):
            return None
        if shows_content and any(_CANNOT_STOP.fullmatch(key) for key in keys):
            return None
        for key in keys:
            if _FILTER.fullmatch(key):
                filters[key] = "false" if key.endswith(".required") else ""
        if len(filters) > MAX_FILTER_KEYS:
            return None
    variables = read_only_variables(filters, env)
    if root is not None:
        # Otherwise a configured work tree could make git show any folder.
        variables["GIT_WORK_TREE"] = str(root)
    return variables


def read_only_variables(
    filters: Mapping[str, str] | None = None, env: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Returns the variables for every git command. Settings are added after those in ``env``."""
    settings = {**_SETTINGS, **(filters or {})}
    given = (env or {}).get("GIT_CONFIG_COUNT", "")
    first = int(given) if re.fullmatch("[0-9]{1,3}", given) else 0
    variables = _VARIABLES | {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for index, (key, value) in enumerate(settings.items(), start=first):
        variables |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return variables


async def _own_keys(folder: Path, env: Mapping[str, str]) -> Sequence[str] | None:
    """Returns the keys in the repository's own configuration; ``None`` if they are unknown."""
    program = await asyncio.to_thread(shutil.which, "git", path=env.get("PATH"))
    if program is None:
        return []
    kept = _CachedGitConfig()
    git_env = {**env, **read_only_variables(env=env), PROCESS_MARK: new_id()}
    command = [program, "config", "--list", "--show-scope", "--includes", "-z", "--name-only"]
    try:
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123, ASYNC230  no disk behind it
            finished = await run(
                command,
                cwd=folder,
                env=git_env,
                sink=kept,
                timeout_seconds=_SECONDS,
                stderr=nowhere.fileno(),
            )
    except (ProcessFailed, OSError):
        return None
    if finished.exit_code != 0:  # also if the output exceeds the limit
        return None
    try:
        words = kept.data.decode().split("\0")
    except UnicodeDecodeError:
        return None
    scoped = zip(words[::2], words[1::2], strict=False)
    return [key for scope, key in scoped if scope not in {"system", "global", "command"}]


@dataclass(slots=True)
class _CachedGitConfig:
    data: bytearray = field(default_factory=bytearray)

    def feed(self, chunk: bytes) -> bool:
        self.data += chunk
        return len(self.data) <= _MAX_CONFIG_BYTES


def _repository_of(folder: Path) -> tuple[Path | None, bool]:
    """Returns the folder with ``.git``, and whether git would find a bare repository first."""
    for place in (folder, *folder.parents):
        if os.path.lexists(place / ".git"):
            return place, False
        if os.path.lexists(place / "HEAD") and (
            os.path.lexists(place / "objects") or os.path.lexists(place / "commondir")
        ):
            return None, True
    return None, False
