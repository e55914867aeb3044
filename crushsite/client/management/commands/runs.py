"""``manage.py runs``: lists the runs of a folder, or shows one, or repeats one."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from crushsite.cli.terminal import cut, visible
from crushsite.client.client_command import ClientCommand
from crushsite.client.finding import folder_of, session_in
from crushsite.client.listing import (
    LIMIT,
    NONE,
    Column,
    as_json,
    below,
    duration,
    items,
    moment,
    opened,
    table,
)

if TYPE_CHECKING:
    from crushclient import Client

COLUMNS = (
    Column("run", is_number=True),
    Column("session"),
    Column("state"),
    Column("prompt", is_flexible=True),
    Column("by", is_optional=True),
    Column("cost", is_number=True, is_optional=True),
    Column("took", is_optional=True),
    Column("accepted", is_optional=True),
)
PROMPT_WIDTH = 44
STATES = ("accepted", "ready", "running", "parked", "finished")


class Command(ClientCommand):
    help = "Lists the runs of a folder, the newest first: state, author, cost, time. Shows one."
    examples = ("runs", "runs --state running", "runs 42", "runs 42 --retry", "runs --session 5e1e")

    @override
    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", nargs="?", type=int, help="the number of a run, to show it")
        parser.add_argument("--path", default=".", help="the folder (default: this one)")
        parser.add_argument("--session", default="", help="only of this session")
        parser.add_argument("--state", choices=STATES, help="only in this state")
        parser.add_argument(
            "--retry", action="store_true", help="with a run: accept its prompt once more"
        )
        parser.add_argument(
            "--limit", type=int, default=LIMIT, help=f"how many (default: {LIMIT}; 0: all)"
        )

    @override
    async def act(self, client: Client, options: Mapping[str, Any]) -> None:
        async with opened(client, folder_of(options["path"], options)) as workspace:
            if options["run"] is not None:
                address = below(workspace.id, "runs", str(options["run"]))
                if options["retry"]:
                    run = await client.request("POST", f"{address}/retry")
                else:
                    run = await client.request("GET", address)
                self.stdout.write(as_json(run) if options["json"] else described(run))
                return
            query: dict[str, Any] = {"state": options["state"]}
            if options["session"]:
                query["session"] = await session_in(client, workspace, options["session"])
            limit = max(options["limit"], 0) or None
            found = await items(client, below(workspace.id, "runs"), query, limit=limit)
        if options["json"]:
            self.stdout.write(as_json(found))
        elif not found:
            self.stdout.write("No runs.")
        else:
            self.stdout.write(table(COLUMNS, [_row(run) for run in found]))


def _row(run: Mapping[str, Any]) -> list[str]:
    return [
        str(run["key"]),
        run["session_id"][:8],
        run.get("outcome") or run["state"],
        cut(run["prompt"], PROMPT_WIDTH) or NONE,
        (run.get("author") or {}).get("name") or NONE,
        f"{run['usage']['cost']:.4f}",
        _took(run),
        moment(run["accepted_at"]),
    ]


def _took(run: Mapping[str, Any]) -> str:
    begun = run.get("started_at")
    return duration((run.get("finished_at") or time.time()) - begun) if begun else NONE


def described(run: Mapping[str, Any]) -> str:
    """All of a run, a line for each fact."""
    usage = run.get("total_usage") or run["usage"]
    facts = [
        ("run", run["key"]),
        ("session", run["session_id"]),
        ("state", run.get("outcome") or run["state"]),
        ("place", run.get("queue_place")),
        ("error", run.get("error")),
        ("author", (run.get("author") or {}).get("name")),
        ("cancelled by", (run.get("cancelled_by") or {}).get("name")),
        ("strategy", run.get("strategy")),
        ("options", run.get("options")),
        ("over budget", run.get("budget")),
        ("accepted", moment(run["accepted_at"])),
        ("started", moment(run.get("started_at"))),
        ("finished", moment(run.get("finished_at"))),
        ("took", _took(run)),
        ("requests", usage["requests"]),
        ("tokens", f"{usage['prompt_tokens']:,} + {usage['completion_tokens']:,}"),
        ("cost", f"${usage['cost']:.4f}"),
        ("child runs", ", ".join(map(str, run.get("children") or ())) or None),
        ("repeats", run.get("retry_of")),
        ("prompt", run["prompt"]),
    ]
    known = [(name, value) for name, value in facts if value not in (None, "", {}, NONE)]
    return "\n".join(f"{name:<14}{visible(str(value))}" for name, value in known)
