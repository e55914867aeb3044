"""Opens workspaces for clients, and writes only to workspaces that are open."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings

from workspaces.access import Caller, Right
from workspaces.actions.claims import claim_workspace
from workspaces.actions.workspaces import Opening, open_workspace
from workspaces.api.bodies import Form
from workspaces.api.fields import Flag, PlainText, Texts
from workspaces.api.paths import PATH_LIMIT, resolved_folder
from workspaces.client_ids import client_id_of
from workspaces.log.errors import BadField
from workspaces.log.reader import read
from workspaces.log.secrets import box
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import PermissionMode
from workspaces.placement.remote_place import remote_place
from workspaces.queries.workspaces import find_workspace, require_open

T = TypeVar("T")

ENV_COUNT = 10_000
ENV_CHARS = 1_000_000


class OpeningForm(Form):
    path = PlainText(limit=PATH_LIMIT, allow_blank=True, default="")
    client_id = PlainText(limit=PATH_LIMIT, allow_blank=True, default="")
    yolo = Flag(default=False)
    permission_mode = PlainText(limit=100, allow_blank=True, default="")
    debug = Flag(default=False)
    data_dir = PlainText(limit=PATH_LIMIT, allow_blank=True, default="")
    env = Texts(count=ENV_COUNT, limit=ENV_CHARS, allow_null=True, default=None)
    channels = Texts(count=100, limit=200, allow_null=True, default=None)


async def open_for_client(fields: dict[str, Any], caller: Caller) -> str:
    """Opens and claims a path's workspace; returns its id.

    A new folder needs rights on the whole server. Raises ``BadField``, ``ClientRetired`` and the
    errors of ``Caller.require``.
    """
    if not fields["path"]:
        raise BadField("path is required")
    client_id = client_id_of(fields["client_id"])
    env = _environment(fields["env"] or ())
    opening = await asyncio.to_thread(_opening, fields, env)
    known = await read(find_workspace, opening.path)
    await caller.require(Right.OPEN, known)
    if opening.skip_permissions:
        await caller.require(Right.SKIP, known)
    if env and not await caller.may(Right.CONFIGURE, known):
        # The environment decides which programs run without a permission request.
        opening = replace(opening, sealed_env="")
    return await writer.write("", partial(_open_and_claim, opening, client_id))


def _mode(fields: dict[str, Any]) -> PermissionMode:
    """Returns the permission mode; newer clients send a mode, older ones ``yolo``."""
    if fields["permission_mode"]:
        return permission_mode_of(fields["permission_mode"])
    return PermissionMode.YOLO if fields["yolo"] else PermissionMode.NORMAL


def permission_mode_of(written: str) -> PermissionMode:
    """Parses a permission mode. Raises ``BadField``."""
    try:
        return PermissionMode(written)
    except ValueError:
        modes = ", ".join(PermissionMode.values)
        raise BadField(f"mode: must be one of {modes}, not {written!r:.80}") from None


def _opening(fields: dict[str, Any], env: dict[str, str]) -> Opening:
    path, data_dir = fields["path"], fields["data_dir"]
    if (place := remote_place(path)) is None:
        path = resolved_folder(path)
    else:
        data_dir = str(settings.DATA_DIR / "remote" / place.worker / place.root)
    return Opening(
        path=path,
        # Empty: the one in the configuration files, else a folder in the path.
        data_dir=os.path.normpath(Path(path, data_dir)) if data_dir else "",
        permission_mode=_mode(fields),
        debug=fields["debug"],
        channels=fields["channels"] or (),
        sealed_env=box().seal_env(env) if env else "",
    )


def _open_and_claim(opening: Opening, client_id: str, tx: Transaction) -> str:
    workspace = open_workspace(tx, opening)
    claim_workspace(tx, workspace.pk, client_id, grace_seconds=settings.CRUSH_CREATE_GRACE_SECONDS)
    return str(workspace.pk)


def _environment(entries: Sequence[str]) -> dict[str, str]:
    if sum(map(len, entries)) > ENV_CHARS:
        raise BadField(f"env: must have at most {ENV_CHARS} characters together")
    env: dict[str, str] = {}
    for index, entry in enumerate(entries):
        name, equals, value = entry.partition("=")
        if not name or not equals:
            # The entry may be a secret, so the error does not repeat it.
            raise BadField(f"env[{index}]: must be NAME=VALUE")
        env[name] = value
    return env


async def write_in_open(workspace_id: str, action: Callable[[Transaction], T]) -> T:
    """Runs an action in an open workspace. Raises ``WorkspaceUnknown`` for a closed one."""

    def checked(tx: Transaction) -> T:
        require_open(workspace_id)
        return action(tx)

    return await writer.write(workspace_id, checked)
