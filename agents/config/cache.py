"""Caches loaded configurations while their files and the workspace's environment are unchanged.

It notes which configurations changed in any load; ``edits.changes`` notifies clients.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType

from django.conf import settings

from agents.config.find import Fingerprint, fingerprint
from agents.config.load import LoadedConfig, load_config
from agents.config.parse import ParsedFile
from agents.config.problem import Problem
from agents.config.trust.decision import TrustAnswers, TrustMode
from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.reader import read
from workspaces.log.secrets import box
from workspaces.log.statements import statements

logger = logging.getLogger(__name__)

CHECK_SECONDS = 1.0  # a changed file is seen after this long at the latest
KEPT = 500
SOUND_KEPT = 2_000  # files
# A file's time is as coarse as the kernel's clock: two writes within it look like one.
COARSE_NS = 50_000_000
_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class ConfigInputs:
    """The inputs to a configuration that a workspace's row holds."""

    path: str
    data_dir: str
    sealed_env: str = field(repr=False)
    stored_digest: str = ""
    answers: TrustAnswers = field(default_factory=TrustAnswers)


@dataclass(slots=True)
class _CachedConfig:
    place: ConfigInputs
    config: LoadedConfig
    env: Mapping[str, str] = field(repr=False)
    mark: Fingerprint  # empty: the files must be read even if they look unchanged
    looked_at: float


class ConfigCache:
    def __init__(self) -> None:
        self._entries: dict[str, _CachedConfig] = {}
        self._loading: dict[str, asyncio.Task[_CachedConfig]] = {}
        self._logged: dict[str, tuple[Problem, ...]] = {}  # problems that are logged already
        self._sound: dict[str, ParsedFile] = {}  # by file: its last valid content
        # Held while stored files change, until clients are notified.
        self.changing = asyncio.Lock()
        self.refreshing = asyncio.Lock()  # an OAuth token; waits for a provider
        # Workspaces whose configuration changed since their clients were notified.
        # Filled only where ``on_unannounced`` is set.
        self.unannounced: set[str] = set()
        self.on_unannounced: Callable[[], None] | None = None

    async def config_of(self, workspace_id: str) -> LoadedConfig:
        """Returns the configuration, from the cache if it is valid. Raises ``WorkspaceUnknown``."""
        return (await self._entry(workspace_id)).config

    async def newest_config_of(self, workspace_id: str) -> LoadedConfig:
        """Returns the configuration after a check of its files, for a run that starts."""
        return (await self._entry(workspace_id, since=time.monotonic())).config

    async def env_of(self, workspace_id: str) -> Mapping[str, str]:
        """Returns the environment that the workspace's clients sent. It must not be shown."""
        return (await self._entry(workspace_id)).env

    def files_of(self, workspace_id: str) -> tuple[str, ...]:
        """The files that may take part in what is loaded already."""
        entry = self._entries.get(workspace_id)
        return entry.config.files if entry is not None else ()

    def known(self, workspace_id: str) -> LoadedConfig | None:
        """The loaded configuration, without waiting: for callers that read many times a second."""
        entry = self._entries.get(workspace_id)
        if entry is None or entry.looked_at == _NEVER:
            return None
        if time.monotonic() - entry.looked_at >= CHECK_SECONDS:
            _ = self._load(workspace_id, entry)  # for the next caller
        return entry.config

    def forget(self, workspace_id: str) -> None:
        """Invalidates the entry, after the workspace was reopened or its stored choices changed."""
        entry = self._entries.get(workspace_id)
        if entry is not None:
            # Kept for comparison with the next one: clients have seen it.
            self._entries[workspace_id] = replace(entry, mark=(), looked_at=_NEVER)

    async def _entry(self, workspace_id: str, since: float | None = None) -> _CachedConfig:
        """An entry whose files were checked after ``since``; by default, a moment ago is enough."""
        if since is None:
            since = time.monotonic() - CHECK_SECONDS
        entry = self._entries.get(workspace_id)
        while entry is None or entry.looked_at < since:
            # A check that started before may have missed a change, so there is another one.
            entry = await asyncio.shield(self._load(workspace_id, entry))
        return entry

    def _load(self, workspace_id: str, entry: _CachedConfig | None) -> asyncio.Task[_CachedConfig]:
        task = self._loading.get(workspace_id)
        # A task that has ended and is not removed yet would be awaited in a busy loop.
        if task is None or task.done():
            task = asyncio.create_task(self._look(workspace_id, entry), name="config-load")
            self._loading[workspace_id] = task
            task.add_done_callback(lambda done: self._loaded(workspace_id, done))
        return task

    def _loaded(self, workspace_id: str, task: asyncio.Task[_CachedConfig]) -> None:
        if self._loading.get(workspace_id) is task:
            del self._loading[workspace_id]
        if not task.cancelled():
            task.exception()  # waiting callers get it; a background check drops it

    async def _look(self, workspace_id: str, entry: _CachedConfig | None) -> _CachedConfig:
        seen = await read(_look_at, workspace_id, entry)
        if isinstance(seen, ConfigInputs):
            # Not on a reading thread, which others wait for: a crushrc may take seconds.
            seen = await asyncio.to_thread(_loaded_entry, seen, entry, dict(self._sound))
        entry = seen
        before = self._entries.pop(workspace_id, None)
        while len(self._entries) >= KEPT:
            self._entries.pop(next(iter(self._entries)))
        self._entries[workspace_id] = entry
        self._keep_sound(entry.config)
        self._log(workspace_id, entry.config.problems)
        if before is not None and self.on_unannounced and _differs(before.config, entry.config):
            self.unannounced.add(workspace_id)
            self.on_unannounced()
        return entry

    def _keep_sound(self, config: LoadedConfig) -> None:
        for file in config.files:
            self._sound.pop(file, None)  # a removed file no longer counts
            if file in config.sound:
                self._sound[file] = config.sound[file]
        while len(self._sound) > SOUND_KEPT:
            self._sound.pop(next(iter(self._sound)))

    def _log(self, workspace_id: str, problems: tuple[Problem, ...]) -> None:
        """Logs each problem once, also when each client makes the files be read again."""
        logged = self._logged.pop(workspace_id, ())
        for problem in problems:
            if problem not in logged:
                logger.warning("configuration: %s", problem, extra={"workspace": workspace_id})
        if problems:
            while len(self._logged) >= KEPT:
                self._logged.pop(next(iter(self._logged)))
            self._logged[workspace_id] = problems


def _differs(one: LoadedConfig, other: LoadedConfig) -> bool:
    return one is not other and (
        one.public != other.public
        or one.settings != other.settings
        or one.data_dir != other.data_dir
    )


def _look_at(workspace_id: str, entry: _CachedConfig | None) -> _CachedConfig | ConfigInputs:
    """The entry where nothing has changed, else the inputs for loading again."""
    place = _place(workspace_id)
    now = time.monotonic()
    if entry is not None and entry.place == place:
        mark = fingerprint(entry.config.files)
        if mark == entry.mark:
            return _CachedConfig(place, entry.config, entry.env, mark, now)
    return place


def _loaded_entry(
    place: ConfigInputs, before: _CachedConfig | None, sound: Mapping[str, ParsedFile]
) -> _CachedConfig:
    now = time.monotonic()
    read_at = time.time_ns()
    env = MappingProxyType(box().open_env(place.sealed_env) if place.sealed_env else {})
    config = load_config(
        place.path,
        data_dir=place.data_dir,
        env=env,
        last_sound=sound,
        last_trees=before.config.ran if before is not None else None,
        answers=place.answers,
        stored_digest=place.stored_digest,
    )
    is_fresh = any(mark is not None and abs(read_at - mark[0]) < COARSE_NS for mark in config.mark)
    return _CachedConfig(place, config, env, () if is_fresh else config.mark, now)


def trust_answers(path: str) -> TrustAnswers:
    """The answers for a folder that count under the server's setting. Synchronous."""
    mode = TrustMode(settings.CRUSH_TRUST)
    if mode is not TrustMode.ASK:
        # A sub-agent's process is given the digest that its parent's folder is trusted with.
        given = settings.CRUSH_TRUST_DIGEST
        return TrustAnswers(mode, {given: True} if given else {})
    with statements() as cursor:
        cursor.execute(
            "SELECT digest, state FROM workspaces_trustrequest"
            " WHERE path = %s AND state IN ('allowed', 'denied')",
            [path],
        )
        return TrustAnswers(
            mode, {digest: state == "allowed" for digest, state in cursor.fetchall()}
        )


@dataclass(frozen=True, slots=True)
class FolderConfig:
    """The configuration of a folder that may not be a workspace yet, freshly read."""

    config: LoadedConfig
    env: Mapping[str, str] = field(repr=False)  # from its clients
    workspace_id: str  # empty where it is not open


def folder_config(path: str) -> FolderConfig:
    """Synchronous."""
    place = _found_place("path", path) or ConfigInputs(path, "", "", "", trust_answers(path))
    entry = _loaded_entry(place, None, {})
    with statements() as cursor:
        cursor.execute(
            "SELECT id FROM workspaces_workspace WHERE path = %s AND is_open = %s", [path, True]
        )
        row = cursor.fetchone()
    return FolderConfig(entry.config, entry.env, row[0] if row else "")


def config_of_folder(path: str) -> LoadedConfig:
    """Synchronous."""
    return folder_config(path).config


def _place(workspace_id: str) -> ConfigInputs:
    place = _found_place("id", workspace_id)
    if place is None:
        raise WorkspaceUnknown
    return place


def _found_place(column: str, value: str) -> ConfigInputs | None:
    with statements() as cursor:
        cursor.execute(
            "SELECT path, data_dir, sealed_env, stored_digest FROM workspaces_workspace"
            f" WHERE {column} = %s",
            [value],
        )
        row = cursor.fetchone()
    if row is None:
        return None
    path, data_dir, sealed_env, stored_digest = row
    return ConfigInputs(path, data_dir, sealed_env, stored_digest, trust_answers(path))


@cache
def configs() -> ConfigCache:
    """The process's only cache."""
    return ConfigCache()
