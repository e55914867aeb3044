"""``manage.py usage``: tokens and cost by day, user, workspace and model."""

from __future__ import annotations

import re
import time
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from typing_extensions import override

from crushsite.client.client_command import ClientCommand
from crushsite.client.listing import NONE, Column, as_json, items, table

if TYPE_CHECKING:
    from crushclient import Client

GROUPS = ("day", "user", "workspace", "model")
# The columns of each group, and the fields that they show.
SHOWN: Mapping[str, tuple[Column, str]] = {
    "day": (Column("day"), "day"),
    "user": (Column("user", is_flexible=True), "user_name"),
    "workspace": (Column("workspace", is_flexible=True), "workspace_path"),
    "model": (Column("model", is_flexible=True), "model"),
}
FIGURES = (
    (Column("requests", is_number=True, is_optional=True), "requests"),
    (Column("tokens in", is_number=True), "prompt_tokens"),
    (Column("tokens out", is_number=True), "completion_tokens"),
)
_DAY_SECONDS = 86_400


class Command(ClientCommand):
    help = "Sums up tokens and cost of model requests: by day, user, workspace or model."
    examples = ("usage", "usage --by model --since 30d", "usage --by user,day --json")

    @override
    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--by",
            default=GROUPS[0],
            help=f"some of {', '.join(GROUPS)}, with commas between (default: day)",
        )
        parser.add_argument("--since", metavar="TIME", help="only the last days or weeks: 30d, 4w")
        parser.add_argument("--user", help="only of this user")
        parser.add_argument("--model", help="only of this model")
        parser.add_argument("--session", help="only of the session with this id")

    @override
    async def act(self, client: Client, options: Mapping[str, Any]) -> None:
        groups = [name.strip() for name in options["by"].split(",") if name.strip()]
        if unknown := [name for name in groups if name not in GROUPS]:
            raise CommandError(f"--by {unknown[0]}: must be some of {', '.join(GROUPS)}.")
        query: dict[str, Any] = {
            "by": ",".join(groups),
            "user": options["user"],
            "model": options["model"],
            "session_id": options["session"],
        }
        if options["since"]:
            query["since"] = int(time.time()) - days_of(options["since"]) * _DAY_SECONDS
        rows = await items(client, "/api/usage", query)
        if options["json"]:
            self.stdout.write(as_json(rows))
        elif not rows:
            self.stdout.write("No model has been used.")
        else:
            self.stdout.write(as_table(groups, rows))


def as_table(groups: list[str], rows: list[dict[str, Any]]) -> str:
    columns = [SHOWN[name][0] for name in groups] + [column for column, _ in FIGURES]
    cells = [
        [
            *(str(row.get(SHOWN[name][1]) or row.get(f"{name}_id") or NONE) for name in groups),
            *(f"{row[name]:,}" for _, name in FIGURES),
            f"{row['cost']:.4f}",
        ]
        for row in rows
    ]
    return table([*columns, Column("cost", is_number=True)], cells)


def days_of(text: str) -> int:
    """Raises ``CommandError``."""
    match = re.fullmatch(r"(\d{1,4})([dw])", text)
    if match is None:
        raise CommandError("--since must be a time like 30d or 4w.")
    return int(match[1]) * (7 if match[2] == "w" else 1)
