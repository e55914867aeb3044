"""``manage.py fleet``: the sub-agents, and stopping one."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import orjson
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from agents.models import SubAgent
from agents.states import RunState, SubAgentState
from crushsite.cli.stored_sessions import cancel_wherever_it_runs
from crushsite.cli.terminal import aligned
from crushsite.monitoring.processes import is_served
from crushsite.storage import require_database
from workspaces.log.timestamps import as_rfc3339, now_ms
from workspaces.queries.processes import silent_processes

LIMIT = 200
LOST = "lost"  # its parent is gone, and it as well; the next start settles it


class Command(BaseCommand):
    help = "Lists sub-agents with their state, age, parent and last event; stops one."
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--all", action="store_true", help="include sub-agents that have ended")
        parser.add_argument("--json", action="store_true", help="print a JSON array")
        parser.add_argument(
            "--stop", metavar="ID", help="cancel this one: its id, or the beginning of it"
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        require_database()
        if options["stop"]:
            self._stop(options["stop"])
            return
        found = SubAgent.objects.select_related("run__session").order_by("-started_at")
        if not options["all"]:
            found = found.exclude(state=SubAgentState.ENDED)
        served = is_served(settings.DATA_DIR)
        rows = [shown(one, now=now_ms(), is_served=served) for one in found[:LIMIT]]
        if options["json"]:
            self.stdout.write(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
        elif not rows:
            self.stdout.write("No sub-agents." if options["all"] else "No sub-agents are running.")
        else:
            headings = ["id", "role", "state", "age", "pid", "parent", "last event"]
            cells = [
                [
                    row["id"],
                    row["role"],
                    row["ending"] or row["state"],
                    age(row["age_seconds"]),
                    str(row["pid"] or "–"),
                    row["parent_session_id"],
                    row["last_event"] or "–",
                ]
                for row in rows
            ]
            self.stdout.write(aligned(headings, cells))

    def _stop(self, named: str) -> None:
        found = SubAgent.objects.select_related("run__session").exclude(state=SubAgentState.ENDED)
        matching = [one for one in found if one.child_id.startswith(named)]
        if not matching:
            raise CommandError(f"No running sub-agent has an id that begins with {named!r}.")
        if len(matching) > 1:
            raise CommandError(
                f"Several sub-agents' ids begin with {named!r}: give more characters of the id."
            )
        (sub_agent,) = matching
        cancel_wherever_it_runs(sub_agent.workspace_id, sub_agent.run.session_id)
        self.stdout.write(f"Stopped {sub_agent.child_id}.")


def is_lost(sub_agent: SubAgent, *, now: int, is_served: bool) -> bool:
    run = sub_agent.run
    if sub_agent.state == SubAgentState.ENDED:
        return False
    if not is_served or run.state != RunState.RUNNING or run.lease_expires_at < now:
        return True
    return silent_processes(now).filter(pk=run.worker).exists()


def shown(sub_agent: SubAgent, *, now: int, is_served: bool) -> dict[str, Any]:
    end = sub_agent.ended_at or now
    last = sub_agent.last_event_at
    return {
        "id": sub_agent.child_id or f"run-{sub_agent.pk}",
        "role": sub_agent.role,
        "state": LOST if is_lost(sub_agent, now=now, is_served=is_served) else sub_agent.state,
        "ending": sub_agent.ending,
        "age_seconds": round((end - sub_agent.started_at) / 1000, 1),
        "pid": sub_agent.pid,
        "endpoint": sub_agent.endpoint,
        "session_id": sub_agent.run.session_id,
        "parent_session_id": parent_of(sub_agent),
        "last_event": sub_agent.last_event,
        "last_event_at": as_rfc3339(last) if last is not None else None,
        "events": sub_agent.events,
    }


def parent_of(sub_agent: SubAgent) -> str:
    return str(sub_agent.run.session.parent_session_id)


def age(seconds: float) -> str:
    """Formats a duration: 12s, 3m 4s, 2h 5m."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60}s"
    return f"{whole // 3600}h {whole % 3600 // 60}m"
