"""Changes stored configuration, and notifies every client that the change may concern.

Writes files in a thread, one change after another, and notifies clients before it returns.
Values are secrets: nothing here logs or records one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from agents.config.cache import configs
from agents.config.crushrc.programs import LastTrees
from agents.config.edits.choices import StoredScope
from agents.config.find import stored_for_workspace
from agents.config.load import LoadedConfig
from agents.config.parse import parse_file
from people.actions.audit import Act, record
from workspaces.access import Actor
from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.reader import read
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.log.writer import writer
from workspaces.models import Workspace
from workspaces.queries.workspaces import read_open_workspace

_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class StoredPlace:
    """The place of a workspace's stored choices."""

    path: str
    data_dir: str
    ran: LastTrees = field(default_factory=dict, repr=False)  # what each crushrc configured


async def change_stored(
    workspace_id: str,
    scope: StoredScope,
    change: Callable[[StoredPlace], None],
    *,
    what: str,
    actor: Actor | None = None,
) -> None:
    """Completes the change even when the caller is cancelled. ``what``: for the audit, no value.

    Raises ``WorkspaceUnknown`` and what ``change`` raises; then nothing was changed.
    """
    changing = _change(workspace_id, scope, change, what=what, actor=actor)
    work = asyncio.create_task(changing, name="config-change")
    work.add_done_callback(_look_at_failure)
    await asyncio.shield(work)


async def announce(workspace_ids: Sequence[str]) -> None:
    """Notifies the clients of open workspaces to read their configuration again."""
    for workspace_id in workspace_ids:
        configs().unannounced.discard(workspace_id)
    await asyncio.gather(
        *(
            writer.write(workspace_id, partial(_append, workspace_id))
            for workspace_id in workspace_ids
        )
    )


async def _change(
    workspace_id: str,
    scope: StoredScope,
    change: Callable[[StoredPlace], None],
    *,
    what: str,
    actor: Actor | None,
) -> None:
    cache = configs()
    async with cache.changing:
        workspace = await read(read_open_workspace, workspace_id)
        config = await cache.newest_config_of(workspace_id)
        place = StoredPlace(workspace.path, config.data_dir, config.ran)
        own_digest = await asyncio.to_thread(_change_files, place, config, change)

        def keep(tx: Transaction) -> None:
            _keep_digest(workspace_id, own_digest, tx)
            details = {"scope": scope.name.lower()}
            record(
                tx, actor, Act.CONFIGURE, workspace_id=workspace_id, target=what, details=details
            )

        await writer.write(workspace_id, keep)
        concerned = [workspace_id]
        if scope is StoredScope.USER:
            # The user's stored file applies to every workspace.
            concerned += [one for one in await read(open_ids) if one != workspace_id]
        # Loads the new configurations before it notifies clients, who then read them.
        for start in range(0, len(concerned), _AT_ONCE):
            looks = [cache.newest_config_of(one) for one in concerned[start : start + _AT_ONCE]]
            await asyncio.gather(*looks, return_exceptions=True)
        await announce(concerned)


def _change_files(
    place: StoredPlace, config: LoadedConfig, change: Callable[[StoredPlace], None]
) -> str:
    """Returns the digest of the workspace's stored choices, if all of them are a person's.

    The file may have come with the folder: a change by a client does not make the rest of the
    file a person's.
    """
    file = stored_for_workspace(place.data_dir)
    is_own = not any(power.file == file for power in config.trust.powers.items)
    change(place)
    return parse_file(file).digest if is_own or config.trust.lets_act else ""


def _keep_digest(workspace_id: str, digest: str, tx: Transaction) -> None:
    tx.execute(
        "UPDATE workspaces_workspace SET stored_digest = %s WHERE id = %s AND stored_digest <> %s",
        [digest, workspace_id, digest],
    )


def open_ids() -> list[str]:
    """Returns the ids of the open workspaces. Synchronous: called through ``read``."""
    return list(Workspace.objects.filter(is_open=True).values_list("pk", flat=True))


def _append(workspace_id: str, tx: Transaction) -> None:
    try:
        tx.lock(workspace_id)
    except WorkspaceUnknown:
        return
    if Workspace.objects.filter(pk=workspace_id, is_open=True).exists():
        tx.append(workspace_id, Kind.CONFIG_CHANGED, {"workspace_id": workspace_id})


def _look_at_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()  # marks it as retrieved; a waiting caller gets it too
