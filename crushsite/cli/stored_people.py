"""What the commands ``token`` and ``user`` share: they work on the database, without a server."""

from __future__ import annotations

import io
import os
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.management import CommandError

from crushsite.asgi.peer import is_loopback
from crushsite.asgi.tool_processes import descendants, supervisors
from crushsite.program_name import command_line
from crushsite.server_client import named_server
from crushsite.storage import ensure_database, running_here
from people.identities import ensure_owner
from workspaces.access import Actor, IdentityKind
from workspaces.models import Workspace


def prepare_database() -> None:
    """Creates or migrates the database if no server has done so. Raises ``CommandError``."""
    ensure_database()
    ensure_owner()


def refuse_tools(deed: str = "change who may use it") -> None:
    """Raises ``CommandError`` in a tool: only a person may do this.

    Also in a tool of a server that has ended: its supervisor may have kept the tool.
    """
    folder = Path(settings.DATA_DIR)
    if not folder.is_dir():
        return  # no server has run
    named = named_server(folder)
    servers = [*running_here(folder), *([named.pid] if named is not None else [])]
    if os.getpid() in descendants([*servers, *supervisors(folder)]):
        raise CommandError(
            f"A tool of the server may not {deed}. Run this in a terminal of your own."
        )


def command_actor() -> Actor:
    """Returns who runs a command on the data folder: its owner, at a terminal."""
    owner = ensure_owner()
    return Actor(IdentityKind.OWNER, owner.get_username(), owner.pk, address="command")


def stored_user(name: str) -> User:
    """Returns the user. Raises ``CommandError``."""
    if not name:
        return ensure_owner()
    user = get_user_model().objects.filter(username=name).first()
    if user is None:
        raise CommandError(
            f"There is no user {name!r}. List them with `{command_line('user list')}`, or add one"
            f" with `{command_line('user add')}`."
        )
    return user


def stored_workspace(name: str) -> Workspace:
    """Returns the workspace with this id, or of this folder. Raises ``CommandError``."""
    path = os.path.realpath(Path(name).expanduser())
    found = Workspace.objects.filter(id=name).first() or Workspace.objects.filter(path=path).first()
    if found is None:
        raise CommandError(
            f"{name} is not a workspace: no client has opened {path} yet. Open it once, for example"
            f" with `{command_line('prompt')}`."
        )
    return found


def browser_url(server_url: str) -> str | None:
    """Returns where a browser opens the server: its public address, or localhost.

    Not 127.0.0.1: passkeys need a name. ``None`` for a socket file without a proxy.
    """
    if settings.CRUSH_PUBLIC_URL:
        return str(settings.CRUSH_PUBLIC_URL).rstrip("/")
    parts = urlsplit(server_url)
    if parts.scheme not in {"http", "https"}:
        return None
    name = "localhost" if is_loopback(parts.hostname) else parts.hostname
    return f"{parts.scheme}://{name}:{parts.port}"


def login_link(base: str, secret: str) -> str:
    return f"{base}/sign-in/link/?key={secret}"


def qr_code(link: str) -> str:
    """Returns a code for the camera of a phone, for terminals; empty without a public address.

    A phone cannot reach a loopback address.
    """
    if not settings.CRUSH_PUBLIC_URL:
        return ""
    import segno  # noqa: PLC0415  only here

    code = io.StringIO()
    segno.make(link, error="l", micro=False).terminal(code, compact=True)
    return code.getvalue()
