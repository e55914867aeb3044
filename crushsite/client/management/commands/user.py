"""``manage.py user``: adds and lists users, and sets their roles in workspaces."""

from __future__ import annotations

import getpass
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
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
from crushsite.client.client_command import ClientCommand
from crushsite.client.finding import user_named, workspace_named
from crushsite.client.listing import NONE, Column, as_json, below, items, table
from crushsite.storage import require_database
from people.actions.members import set_role
from people.actions.users import UserChange, add_user, change_user
from people.models import Owner
from workspaces.access import MemberRole
from workspaces.log.errors import Refusal
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer

if TYPE_CHECKING:
    from crushclient import Client

NO_ROLE = "none"
COLUMNS = (
    Column("user", is_flexible=True, widest=30),
    Column("kind"),
    Column("state"),
    Column("roles", is_flexible=True),
)

Row = Mapping[str, Any]


class Command(ClientCommand):
    help = (
        "Adds and lists users, and sets what they may do in a workspace. Without --server it works"
        " on this machine's database, and needs no server."
    )
    examples = (
        "user add ann --email ann@example.com",
        "user role ann ~/project approver",
        "user list --server https://crush.example.com",
    )

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        tasks = parser.add_subparsers(
            dest="task", required=True, metavar="add|list|role|disable|enable"
        )
        add = tasks.add_parser("add", help="add a user who signs in with a password")
        add.add_argument("name")
        add.add_argument("--email", default="")
        add.add_argument(
            "--staff", action="store_true", help="may do everything everywhere, and use /admin"
        )
        add.add_argument(
            "--password-stdin",
            action="store_true",
            help="read the password from the standard input instead of the terminal",
        )
        add.add_argument(
            "--no-password", action="store_true", help="the user has tokens only, for programs"
        )
        shown = tasks.add_parser("list", help="list the users and their roles")
        shown.add_argument("--json", action="store_true", help="print a JSON array")
        role = tasks.add_parser("role", help="set what a user may do in a workspace")
        role.add_argument("name")
        role.add_argument("workspace", help="its folder, or its id")
        role.add_argument("role", choices=[*MemberRole, NO_ROLE])
        acts = [add, shown, role]
        for task, what in (("disable", "keep a user out"), ("enable", "let a user in again")):
            acts.append(tasks.add_parser(task, help=what))
            acts[-1].add_argument("name")
        for act in acts:
            add_server_options(act)

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        # Before anything else: the password is typed at this terminal, not inside an event loop.
        if options["task"] == "add":
            options["password"] = _password(options)
        if chosen_login(options) is not None:
            super().handle(*args, **options)
            return
        if options["task"] == "list":
            require_database()
            self._listed(_stored_users(), options)
            return
        refuse_tools()
        if options["task"] == "add":
            prepare_database()
        else:
            require_database()
        try:
            path = _ACTS_HERE[options["task"]](options)
        except Refusal as refusal:
            raise CommandError(refusal.sentence) from refusal
        self._done(options, path)

    @override
    async def act(self, client: Client, options: Mapping[str, Any]) -> None:
        if options["task"] == "list":
            self._listed(await _users(client), options)
        else:
            self._done(options, await _ACTS_THERE[options["task"]](client, options))

    def _listed(self, users: list[dict[str, Any]], options: Mapping[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(as_json(users))
        else:
            self.stdout.write(table(COLUMNS, [_as_row(user) for user in users]))

    def _done(self, options: Mapping[str, Any], path: str) -> None:
        name, role = options["name"], options.get("role")
        what = "has no role" if role == NO_ROLE else f"is {role}"
        sentences = {
            "add": f"Added {name}.",
            "role": f"{name} {what} in {path}.",
            "enable": f"{name} may sign in.",
            "disable": f"{name} is kept out.",
        }
        self.stdout.write(sentences[options["task"]])


# -- by a server: each act returns the folder that it concerns, or nothing


async def _users(client: Client) -> list[dict[str, Any]]:
    users = await items(client, "/api/users")
    workspaces = await items(client, "/api/workspaces", {"state": "all"})
    paths = {workspace["id"]: workspace["path"] for workspace in workspaces}
    return [
        {
            **{name: user[name] for name in ("name", "email", "is_owner", "is_staff", "is_active")},
            "roles": {
                paths.get(each["workspace_id"], each["workspace_id"] or EVERYWHERE): each["role"]
                for each in user["roles"]
            },
        }
        for user in users
    ]


EVERYWHERE = "every workspace"  # what a role of a group may hold in


async def _add(client: Client, options: Mapping[str, Any]) -> str:
    body = {
        "name": options["name"],
        "email": options["email"],
        "is_staff": options["staff"],
        "password": options["password"],
    }
    given = {name: value for name, value in body.items() if value is not None}
    await client.request("POST", "/api/users", body=given)
    return ""


async def _set_role(client: Client, options: Mapping[str, Any]) -> str:
    workspace = await workspace_named(client, options["workspace"], options)
    members = below(workspace["id"], "members")
    if options["role"] == NO_ROLE:
        found = await items(client, members)
        member = next((each for each in found if each["name"] == options["name"]), None)
        if member is None:
            raise CommandError(f"{options['name']} has no role in {workspace['path']}.")
        await client.request("DELETE", f"{members}/{member['user_id']}")
    else:
        body = {"name": options["name"], "role": options["role"]}
        await client.request("POST", members, body=body)
    return str(workspace["path"])


async def _set_active(client: Client, options: Mapping[str, Any]) -> str:
    user = await user_named(client, options["name"])
    body = {"is_active": options["task"] == "enable"}
    await client.request("PATCH", f"/api/users/{user['id']}", body=body)
    return ""


_ACTS_THERE = {"add": _add, "role": _set_role, "enable": _set_active, "disable": _set_active}


# -- in the database of this machine


def _stored_users() -> list[dict[str, Any]]:
    owner = Owner.objects.values_list("user_id", flat=True).first()
    users = get_user_model().objects.prefetch_related("memberships__workspace")
    return [
        {
            "name": user.get_username(),
            "email": user.email,
            "is_owner": user.pk == owner,
            "is_staff": user.is_staff,
            "is_active": user.is_active,
            "roles": {member.workspace.path: member.role for member in user.memberships.all()},
        }
        for user in users.order_by("username")
    ]


def _add_stored(options: Mapping[str, Any]) -> str:
    name, users = options["name"], get_user_model()
    if users.objects.filter(username=name).exists():
        raise CommandError(f"There is a user {name!r} already.")
    user = users(
        username=name,
        email=options["email"],
        is_staff=options["staff"],
        is_superuser=options["staff"],
    )
    try:
        user.full_clean(exclude=["password"])
        if options["password"] is not None:
            validate_password(options["password"], user)
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from error
    user.set_password(options["password"])
    _write(partial(add_user, user=user, actor=command_actor()))
    return ""


def _set_stored_role(options: Mapping[str, Any]) -> str:
    user, workspace = stored_user(options["name"]), stored_workspace(options["workspace"])
    role = None if options["role"] == NO_ROLE else MemberRole(options["role"])
    _write(partial(set_role, user=user, workspace=workspace, role=role, actor=command_actor()))
    return str(workspace.path)


def _set_stored_active(options: Mapping[str, Any]) -> str:
    user = stored_user(options["name"])
    change = UserChange(is_active=options["task"] == "enable")
    _write(partial(change_user, user_id=user.pk, change=change, actor=command_actor()))
    return ""


_ACTS_HERE: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "add": _add_stored,
    "role": _set_stored_role,
    "enable": _set_stored_active,
    "disable": _set_stored_active,
}


def _write(job: Callable[[Transaction], object]) -> None:
    writer.write_and_wait("", job)


# -- both


def _as_row(user: Row) -> list[str]:
    kind = "owner" if user["is_owner"] else "staff" if user["is_staff"] else "user"
    roles = ", ".join(f"{role} in {path}" for path, role in user["roles"].items())
    return [user["name"], kind, "active" if user["is_active"] else "disabled", roles or NONE]


def _password(options: Mapping[str, Any]) -> str | None:
    """Returns the password that is typed or read; ``None`` for a user without. Raises ``CommandError``."""
    if options["no_password"]:
        return None
    if options["password_stdin"]:
        return sys.stdin.readline().rstrip("\n")
    if not sys.stdin.isatty():
        raise CommandError(
            "There is no terminal to type a password: use --password-stdin or --no-password."
        )
    password = getpass.getpass("Password: ")
    if getpass.getpass("Password again: ") != password:
        raise CommandError("The two passwords differ.")
    return password
