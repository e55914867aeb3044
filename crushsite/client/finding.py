"""Finds what a person names by a folder, by an id or by the beginning of an id."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from django.core.management.base import CommandError

from crushsite.cli.servers import chosen_login
from crushsite.cli.terminal import visible
from crushsite.client.listing import items
from crushsite.program_name import command_line
from workspaces.placement.remote_place import remote_place

if TYPE_CHECKING:
    from crushclient import Client, OpenWorkspace

SHORTEST_BEGINNING = 4  # characters of an id that may stand for the whole
SHOWN_IDS = 5
MOST_LIKE_IT = 200  # sessions that begin like this

Row = Mapping[str, Any]


def folder_of(text: str, options: Mapping[str, Any]) -> str:
    """The folder as the server names it. One elsewhere has other folders than this machine."""
    is_elsewhere = chosen_login(options) is not None and text.startswith("/")
    if is_elsewhere or remote_place(text) is not None:
        return text
    return os.path.realpath(Path(text).expanduser())


def one_of(rows: Iterable[Row], wanted: str, *, what: str, listing: str, key: str = "id") -> Row:
    """Returns the row whose id is wanted, or the only one that begins so. Raises ``CommandError``."""
    known = list(rows)
    exact = [row for row in known if str(row[key]) == wanted]
    if exact:
        return exact[0]
    is_long_enough = len(wanted) >= SHORTEST_BEGINNING
    found = [row for row in known if is_long_enough and str(row[key]).startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(visible(str(row[key])) for row in found[:SHOWN_IDS])
        more = ", …" if len(found) > SHOWN_IDS else ""
        raise CommandError(
            f"Several {what}s begin with {wanted!r}: {ids}{more}. Give more characters of the id."
        )
    advice = f" `{command_line(listing)}` lists them."
    if wanted and not is_long_enough and any(str(row[key]).startswith(wanted) for row in known):
        advice = f" Give at least {SHORTEST_BEGINNING} characters of the id."
    raise CommandError(f"There is no {what} {wanted!r}.{advice}")


async def open_session(
    client: Client, wanted: str, path: str, *, is_new: bool = False
) -> tuple[OpenWorkspace, str]:
    """Opens the workspace of a session; returns it and the session's id.

    Without an id it is the newest session of the folder. Raises ``CommandError``.
    """
    if wanted:
        session = await find_session(client, wanted)
        return await client.open_workspace(session["path"]), str(session["id"])
    workspace = await client.open_workspace(path)
    below = f"/v1/workspaces/{quote(workspace.id, safe='')}/sessions"
    if is_new:
        created = await client.request("POST", below, body={"title": ""})
        return workspace, str(created["id"])
    sessions = [each for each in await client.request("GET", below) if not _is_child(each)]
    if not sessions:
        raise CommandError(
            f"{path} has no session yet. Start one with --new, or send a prompt with"
            f" `{command_line('prompt')}`."
        )
    newest = max(sessions, key=lambda session: session["updated_at"])
    return workspace, str(newest["id"])


async def workspace_named(client: Client, name: str, options: Mapping[str, Any]) -> Row:
    """Returns the workspace with this id or folder, open or closed. Raises ``CommandError``."""
    names = {name, folder_of(name, options)}
    for workspace in await items(client, "/api/workspaces", {"state": "all"}):
        if names & {workspace["id"], workspace["path"]}:
            return workspace
    raise CommandError(f"{name} is not a workspace: no client has opened it yet.")


async def user_named(client: Client, name: str) -> Row:
    """Returns the user with this name. Raises ``CommandError``."""
    for user in await items(client, "/api/users"):
        if user["name"] == name:
            return user
    raise CommandError(f"There is no user {name!r}. `{command_line('user list')}` lists them.")


async def session_in(client: Client, workspace: OpenWorkspace, wanted: str) -> str:
    """Returns the whole id of a session of the workspace. Raises ``CommandError``."""
    below = f"/v1/workspaces/{quote(workspace.id, safe='')}/sessions"
    found = await client.request("GET", below)
    return str(one_of(found, wanted, what="session", listing="sessions")["id"])


async def find_session(client: Client, wanted: str, *, path: str | None = None) -> Row:
    """Returns the session with this id or the only one that begins so, wherever it is.

    ``path``: only of this folder. Raises ``CommandError``.
    """
    query = {"id": wanted, "path": path, "with_children": True}
    found = await items(client, "/api/sessions", query, limit=MOST_LIKE_IT)
    return one_of(found, wanted, what="session", listing="sessions")


def _is_child(session: Row) -> bool:
    return bool(session.get("parent_session_id"))
