"""``manage.py ps``: the processes of the server and its commands, its unfinished and stuck runs.

Reads the database itself, so that it works when no web process answers.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from typing_extensions import override

from agents.figures import runs_by_state, workers
from agents.jobs.running import BackgroundCommand, background_commands
from agents.runs.claims.claim_order import runs_at_limits
from agents.stuck_runs import StuckRun, stuck_runs
from crushsite.client.listing import NONE, Column, as_json, duration, shown_id, table
from crushsite.monitoring.processes import ServerPid, is_served, processes
from crushsite.storage import require_database
from workspaces.log.timestamps import now_ms

PROCESSES = (
    Column("pid", is_number=True),
    Column("kind"),
    Column("id"),
    Column("host"),
    Column("version", is_optional=True),
    Column("since"),
    Column("runs", is_number=True),
    Column("state"),
    Column("roots", is_flexible=True, is_optional=True),
    Column("labels", is_flexible=True, is_optional=True),
    Column("database", is_flexible=True),
)
COMMANDS = (
    Column("pid", is_number=True),
    Column("kind"),
    Column("host"),
    Column("for"),
    Column("state"),
    Column("session"),
    Column("command", is_flexible=True),
)
STUCK = (
    Column("run", is_number=True),
    Column("state"),
    Column("for"),
    Column("session"),
    Column("path", is_flexible=True, is_optional=True),
    Column("reason", is_flexible=True),
)


class Command(BaseCommand):
    help = "Shows the server's processes, its background commands and unfinished runs, and the runs that are stuck, with the reason."
    examples = ("ps", "ps --json")
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        require_database()
        now = now_ms()
        found = processes(workers(), folder=settings.DATA_DIR)
        states = runs_by_state()
        at_limits = len(runs_at_limits())
        commands = background_commands()
        stuck = stuck_runs(now, is_served=is_served(settings.DATA_DIR))
        if options["json"]:
            shown = {
                "processes": [_process_fields(each, now) for each in found],
                "commands": [_command_fields(each, now) for each in commands],
                "runs": states,
                "at_limits": at_limits,
                "stuck": [_stuck_fields(run, now) for run in stuck],
            }
            self.stdout.write(as_json(shown))
            return
        if found:
            self.stdout.write(_process_table(found, now))
        else:
            self.stdout.write("No process of the server runs.")
        if commands:
            self.stdout.write("\nBackground commands:")
            self.stdout.write(table(COMMANDS, [_command_row(each, now) for each in commands]))
        counts = ", ".join(f"{count:,} {state}" for state, count in sorted(states.items()))
        self.stdout.write(f"\nUnfinished runs: {counts or 'none'}")
        if at_limits:
            self.stdout.write(f"Waiting because of a limit of running runs: {at_limits:,}")
        if stuck:
            self.stdout.write("\nStuck:")
            self.stdout.write(table(STUCK, [_stuck_row(run, now) for run in stuck]))
        else:
            self.stdout.write("No run is stuck.")


def _process_table(found: Sequence[ServerPid], now: int) -> str:
    """Without the columns that no process has anything in."""
    rows = [_process_row(each, now) for each in found]
    kept = [index for index in range(len(PROCESSES)) if any(row[index] for row in rows)]
    columns = [PROCESSES[index] for index in kept]
    return table(columns, [[row[index] for index in kept] for row in rows])


def _process_row(each: ServerPid, now: int) -> list[str]:
    return [
        str(each.pid or NONE),
        each.kind,
        shown_id(each.instance_id) or NONE,
        each.host or NONE,
        each.version or NONE,
        NONE if each.started_at is None else f"{duration((now - each.started_at) / 1000)} ago",
        str(each.runs) if each.most_runs is None else f"{each.runs} of {each.most_runs}",
        _state(each, now),
        ", ".join([*each.roots, *(f"{name} (missing)" for name in each.missing_roots)]),
        ", ".join(each.labels),
        each.database,
    ]


def _command_row(each: BackgroundCommand, now: int) -> list[str]:
    lasted = duration((now - each.started_at) / 1000)
    session = shown_id(each.session_id)
    return [str(each.pid), each.kind, each.host, lasted, each.state, session, each.command]


def _command_fields(each: BackgroundCommand, now: int) -> dict[str, Any]:
    return {
        "id": each.id,
        "pid": each.pid,
        "kind": each.kind,
        "host": each.host,
        "seconds": (now - each.started_at) / 1000,
        "state": each.state,
        "session_id": each.session_id,
        "command": each.command,
    }


def _state(each: ServerPid, now: int) -> str:
    if each.lease_expires_at is None or each.lease_expires_at > now:
        return "draining" if each.is_draining else "live"
    if each.lease_expires_at == 0:
        return "lost"
    return f"silent for {duration((now - each.lease_expires_at) / 1000)}"


def _stuck_row(run: StuckRun, now: int) -> list[str]:
    waited = duration((now - run.since) / 1000)
    return [str(run.key), run.state, waited, shown_id(run.session_id), run.path, run.reason]


def _process_fields(each: ServerPid, now: int) -> dict[str, Any]:
    expires = each.lease_expires_at
    return {
        "pid": each.pid,
        "kind": each.kind,
        "id": each.instance_id,
        "host": each.host,
        "version": each.version,
        "started_seconds": None if each.started_at is None else (now - each.started_at) / 1000,
        "is_draining": each.is_draining,
        "runs": each.runs,
        "most_runs": each.most_runs,
        "lease_seconds": None if expires is None else (expires - now) / 1000,
        "roots": each.roots,
        "missing_roots": each.missing_roots,
        "labels": each.labels,
        "database": each.database,
    }


def _stuck_fields(run: StuckRun, now: int) -> dict[str, Any]:
    return {
        "key": run.key,
        "state": run.state,
        "workspace_id": run.workspace_id,
        "path": run.path,
        "session_id": run.session_id,
        "worker": run.worker,
        "seconds": (now - run.since) / 1000,
        "reason": run.reason,
    }
