"""``manage.py token``: creates, lists and revokes the tokens by which programs sign in."""

from __future__ import annotations

import re
import time
from argparse import ArgumentParser
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from typing_extensions import override

from crushsite.cli.servers import add_server_options, chosen_login
from crushsite.cli.stored_people import (
    command_actor,
    prepare_database,
    refuse_tools,
    stored_user,
    stored_workspace,
)
from crushsite.client import finding
from crushsite.client.client_command import ClientCommand
from crushsite.client.listing import NONE, Column, as_json, items, moment, table
from crushsite.program_name import command_line
from crushsite.storage import require_database
from people.actions.tokens import PREFIX, create_token, revoke_token
from people.models import Token
from workspaces.access import Right
from workspaces.log.errors import Refusal
from workspaces.log.writer import writer

if TYPE_CHECKING:
    from crushclient import Client

SCOPES = sorted(set(Right) - {Right.PUBLIC, Right.SIGNED_IN})
DEFAULT_EXPIRY = "90d"
_SECONDS = {"h": 3600, "d": 86_400, "w": 7 * 86_400}
COLUMNS = (
    Column("token"),
    Column("name", is_flexible=True, widest=30),
    Column("user", is_flexible=True, widest=30),
    Column("rights", is_flexible=True),
    Column("workspaces", is_optional=True),
    Column("state"),
    Column("last used", is_optional=True),
)

Row = Mapping[str, Any]


class Command(ClientCommand):
    help = (
        "Creates, lists and revokes the tokens by which programs use the server. Without --server it"
        " works on this machine's database, and needs no server."
    )
    examples = (
        "token create laptop --expires 30d",
        "token create ci --scope read --scope prompt --workspace ~/project",
        "token list --server https://crush.example.com",
        "token revoke crush_a1b2c3",
    )

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        tasks = parser.add_subparsers(dest="task", required=True, metavar="create|list|revoke")
        create = tasks.add_parser("create", help="print a new token, once")
        create.add_argument("name", help="what it is for, for example: laptop")
        create.add_argument(
            "--user", default="", help="whose rights it has (default: the server's owner, or you)"
        )
        create.add_argument(
            "--scope",
            action="append",
            choices=SCOPES,
            metavar="RIGHT",
            help=f"a right that it has; repeat it for more (default: all; {', '.join(SCOPES)})",
        )
        create.add_argument(
            "--workspace",
            action="append",
            metavar="FOLDER",
            help="a folder or workspace id that it may use; repeat it for more (default: all)",
        )
        create.add_argument(
            "--expires",
            default=DEFAULT_EXPIRY,
            metavar="TIME",
            help=f"hours, days or weeks, like 12h, 30d, 8w, or never (default: {DEFAULT_EXPIRY})",
        )
        shown = tasks.add_parser("list", help="list the tokens, without their secrets")
        revoke = tasks.add_parser("revoke", help="end a token for good")
        revoke.add_argument("token", help="its id, or how it begins, as `list` shows it")
        for task in (create, shown, revoke):
            task.add_argument("--json", action="store_true", help="print JSON")
            add_server_options(task)

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if chosen_login(options) is not None:
            super().handle(*args, **options)
            return
        try:
            match options["task"]:
                case "create":
                    self._created(_create_stored(options), options)
                case "list":
                    self._listed(_stored_tokens(), options)
                case _:
                    self._revoked(_revoke_stored(options["token"]), options)
        except Refusal as refusal:
            raise CommandError(refusal.sentence) from refusal

    @override
    async def act(self, client: Client, options: Mapping[str, Any]) -> None:
        match options["task"]:
            case "create":
                self._created(await _create(client, options), options)
            case "list":
                self._listed(await _tokens(client), options)
            case _:
                token = one_of(await _tokens(client), options["token"])
                await client.request("DELETE", f"/api/tokens/{token['id']}")
                self._revoked(token, options)

    def _created(self, token: Row, options: Mapping[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(as_json(token))
            return
        self.stdout.write(token["token"])
        ends = token["expires_at"]
        until = "never expires" if ends is None else f"expires {moment(ends)}"
        self.stderr.write(
            f"The token of {token['user']} {until}. It is shown only now; revoke it with"
            f" `{command_line('token revoke ' + token['prefix'])}`."
        )

    def _listed(self, tokens: list[dict[str, Any]], options: Mapping[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(as_json(tokens))
        elif not tokens:
            self.stdout.write(f"No tokens. Create one with `{command_line('token create NAME')}`.")
        else:
            self.stdout.write(table(COLUMNS, [_as_row(token) for token in tokens]))

    def _revoked(self, token: Row, options: Mapping[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(as_json({"id": token["id"], "is_revoked": True}))
        else:
            self.stdout.write(
                f"{token['name']} ({token['prefix']}…) is revoked. Streams that it opened end within"
                " seconds."
            )


# -- by a server


async def _create(client: Client, options: Mapping[str, Any]) -> Row:
    body = {"name": options["name"], "expires_at": expiry_of(options["expires"])}
    if options["scope"] is not None:
        body["scopes"] = options["scope"]
    if options["workspace"] is not None:
        found = [
            await finding.workspace_named(client, name, options) for name in options["workspace"]
        ]
        body["workspaces"] = [workspace["id"] for workspace in found]
    if options["user"]:
        body["user_id"] = int((await finding.user_named(client, options["user"]))["id"])
    created: Row = await client.request("POST", "/api/tokens", body=body)
    return created


async def _tokens(client: Client) -> list[dict[str, Any]]:
    """Those of all users for staff, else one's own."""
    is_staff = (await client.request("GET", "/api/me"))["is_staff"]
    return await items(client, "/api/tokens", {"everyone": True} if is_staff else {})


# -- in the database of this machine


def _create_stored(options: Mapping[str, Any]) -> Row:
    refuse_tools()
    prepare_database()
    ends, folders, scopes = expiry_of(options["expires"]), options["workspace"], options["scope"]
    create = partial(
        create_token,
        user=stored_user(options["user"]),
        name=options["name"],
        created_by=stored_user(""),
        scopes=None if scopes is None else {Right(scope) for scope in scopes},
        workspaces=None if folders is None else [stored_workspace(name) for name in folders],
        expires_at=None if ends is None else ends * 1000,
        actor=command_actor(),
    )
    made = writer.write_and_wait("", create)
    return {**_wire(made.row), "token": made.text}


def _stored_tokens() -> list[dict[str, Any]]:
    require_database()
    tokens = Token.objects.select_related("user").prefetch_related("workspaces")
    return [_wire(token) for token in tokens.order_by("-created_at")]


def _revoke_stored(wanted: str) -> Row:
    refuse_tools()
    token = one_of(_stored_tokens(), wanted)
    writer.write_and_wait("", partial(revoke_token, token_id=token["id"], actor=command_actor()))
    return token


def _wire(token: Token) -> dict[str, Any]:
    from people.rest.tokens import token_wire  # noqa: PLC0415  help does without REST framework

    return token_wire(token)


# -- both


def one_of(tokens: list[dict[str, Any]], wanted: str) -> Row:
    """Returns the token with this id or beginning. Raises ``CommandError``."""
    by_prefix = wanted.startswith(PREFIX)
    found = [
        token
        for token in tokens
        if token["id"] == wanted or (by_prefix and token["prefix"].startswith(wanted))
    ]
    if len(found) != 1:
        problem = "There is no such token" if not found else "Several tokens begin like this"
        raise CommandError(f"{problem}: see `{command_line('token list')}`.")
    return found[0]


def expiry_of(text: str) -> int | None:
    """Returns the time in unix seconds; ``None`` for never. Raises ``CommandError``."""
    if text == "never":
        return None
    match = re.fullmatch(r"(\d{1,4})([hdw])", text)
    if match is None or int(match[1]) == 0:
        raise CommandError("--expires must be a time like 12h, 30d or 8w, or never.")
    return int(time.time()) + int(match[1]) * _SECONDS[match[2]]


def _state(token: Row) -> str:
    ends = token["expires_at"]
    if token["revoked_at"] is not None:
        return "revoked"
    if ends is None:
        return "valid"
    return "expired" if ends <= time.time() else f"until {moment(ends)[:10]}"


def _as_row(token: Row) -> list[str]:
    scopes, limited = token["scopes"], token["workspaces"]
    return [
        f"{token['prefix']}…",
        token["name"],
        token["user"],
        "all" if scopes is None else ", ".join(scopes) or NONE,
        "all" if limited is None else str(len(limited)),
        _state(token),
        "never" if token["last_used_at"] is None else moment(token["last_used_at"]),
    ]
