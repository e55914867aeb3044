"""Variables with which git reads a repository and runs nothing that the repository names.

A repository's own configuration can name programs: file system monitors, filters, signature
checkers, hooks, helpers that fetch missing objects. Variables switch these off for one process.
Some settings cannot be switched off from outside, and a bare repository may lie among the files
of a clone; for those there are no such variables. What a user has configured for all of their
repositories stays.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agents.tools.shell.process import ProcessFailed
from agents.tools.shell.pumped import run
from agents.tools.shell.reaper import PROCESS_MARK
from workspaces.log.ids import new_id

MAX_FILTER_KEYS = 200
_MAX_CONFIG_BYTES = 256 << 10
_SECONDS = 2.0

_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    # Git before 2.44 does not know the first. The second stops its fetch before a program starts.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}
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
# These name programs or other files for commands that show content, and no variable takes them back.
_CANNOT_STOP = re.compile(
    r"diff\.external|diff\..*\.(?:command|textconv)|log\.diffmerges|include(?:if\..*)?\.path"
    r"|submodule\..*\.ignore|core\.alternaterefscommand",
    re.DOTALL,
)
# Sections of which nothing else starts a program in commands that only read. Later versions of
# git may learn others: what stands in an unknown section may do anything.
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
    """For git in ``folder`` with ``env``. ``None``: git may run something of the repository's.

    ``shows_content``: git may be used for more than names and subjects. Takes at most two
    seconds. Raises nothing.
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
    variables = quiet_variables(filters, env)
    if root is not None:
        # A configured work tree could be any folder, whose names and files git would then show.
        variables["GIT_WORK_TREE"] = str(root)
    return variables


def quiet_variables(
    filters: Mapping[str, str] | None = None, env: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What every command of git is given. Its settings follow those that ``env`` holds already."""
    settings = {**_SETTINGS, **(filters or {})}
    given = (env or {}).get("GIT_CONFIG_COUNT", "")
    first = int(given) if re.fullmatch("[0-9]{1,3}", given) else 0
    variables = _VARIABLES | {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for index, (key, value) in enumerate(settings.items(), start=first):
        variables |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return variables


async def _own_keys(folder: Path, env: Mapping[str, str]) -> Sequence[str] | None:
    """The keys that the repository itself configures; ``None`` when they cannot be told."""
    program = await asyncio.to_thread(shutil.which, "git", path=env.get("PATH"))
    if program is None:
        return []
    kept = _CachedGitConfig()
    asking = {**env, **quiet_variables(env=env), PROCESS_MARK: new_id()}
    command = [program, "config", "--list", "--show-scope", "--includes", "-z", "--name-only"]
    try:
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123, ASYNC230  no disk behind it
            finished = await run(
                command,
                cwd=folder,
                env=asking,
                sink=kept,
                timeout_seconds=_SECONDS,
                stderr=nowhere.fileno(),
            )
    except (ProcessFailed, OSError):
        return None
    if finished.exit_code != 0:  # also when there was more than is kept
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
    """The folder that holds ``.git``, and whether git would take a bare repository before it."""
    for place in (folder, *folder.parents):
        if os.path.lexists(place / ".git"):
            return place, False
        if os.path.lexists(place / "HEAD") and (
            os.path.lexists(place / "objects") or os.path.lexists(place / "commondir")
        ):
            return None, True
    return None, False
