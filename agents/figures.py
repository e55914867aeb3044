"""The figures of the dashboard, each by one query that an index or a small column serves.

With 100,000 rows of each table the whole page takes at most 200 ms (`python -m tests.bench.admin`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Avg, Count, F, Max, Min, Model, Q, QuerySet, Sum

from agents.models import Run, SubAgent, UsageEntry
from agents.states import CLAIMABLE, RunOutcome, RunState, SubAgentState
from permissions.models import BatchState
from workspaces.models import RegisteredProcess
from workspaces.queries.processes import lease_of

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
HOURS, DAYS = 24, 14
ERRORS = (RunOutcome.FAILED, RunOutcome.INTERRUPTED)
WORKERS_SHOWN = 20
OLDEST_DAYS = 7  # a run that ends today was hardly ever accepted earlier


@dataclass(frozen=True, slots=True)
class Hour:
    """What happened in an hour; ``start`` in milliseconds."""

    start: int
    accepted: int = 0
    wait_average: float | None = None  # milliseconds in the queue
    wait_longest: int | None = None
    succeeded: int = 0
    errors: int = 0


@dataclass(frozen=True, slots=True)
class Worker:
    name: str
    runs: int
    process: RegisteredProcess | None  # none of a worker of an earlier release
    lease_expires_at: int  # of its registration, or the first of its runs' leases


@dataclass(frozen=True, slots=True)
class Open:
    """Requests or questions that wait for people."""

    count: int
    oldest: int | None


def runs_by_state() -> dict[str, int]:
    """The number of unfinished runs in each state."""
    unfinished = Run.objects.exclude(state=RunState.FINISHED).order_by()
    found = unfinished.values_list("state").annotate(count=Count("id"))
    return dict(found)


def oldest_waiting() -> int | None:
    """When the run was accepted that waits longest for a worker."""
    # The first condition is that of an index.
    unfinished = Run.objects.exclude(state=RunState.FINISHED)
    waiting = unfinished.filter(state__in=[state.value for state in CLAIMABLE])
    found: int | None = waiting.aggregate(first=Min("accepted_at"))["first"]
    return found


def workers() -> list[Worker]:
    """The workers that hold runs, those with the most first."""
    held = Run.objects.filter(state=RunState.RUNNING).order_by()
    found = held.values("worker").annotate(runs=Count("id"), expires=Min("lease_expires_at"))
    rows = list(found.order_by("-runs", "worker")[:WORKERS_SHOWN])
    registered = RegisteredProcess.objects.in_bulk([row["worker"] for row in rows])
    found_workers = []
    for row in rows:
        process = registered.get(row["worker"])
        lease = row["expires"] if process is None else lease_of(process)
        found_workers.append(Worker(row["worker"], row["runs"], process, lease))
    return found_workers


def last_before(now: int) -> int:
    """The key of the newest run that was accepted earlier than a week ago; keys grow with time.

    No index has the times of runs: without it, the hours take five times as long of 100,000 runs.
    """
    earlier = Run.objects.filter(accepted_at__lt=now - OLDEST_DAYS * DAY_MS).order_by("-id")
    return earlier.values_list("id", flat=True).first() or 0


def hours(now: int, after: int) -> list[Hour]:
    """The last 24 hours, the present one last.

    ``after``: only of runs with a larger key, from ``last_before``.
    """
    first = now // HOUR_MS - HOURS + 1
    since = first * HOUR_MS
    recent = Run.objects.filter(id__gt=after)
    accepted = _by_hour(recent.filter(accepted_at__gte=since), "accepted_at").annotate(
        count=Count("id")
    )
    # Only runs that a worker has begun have waited for a known time.
    waited = _by_hour(recent.filter(started_at__gte=since), "started_at").annotate(
        average=Avg(F("started_at") - F("accepted_at")),
        longest=Max(F("started_at") - F("accepted_at")),
    )
    is_error = Q(outcome__in=[outcome.value for outcome in ERRORS])
    ended = _by_hour(recent.filter(finished_at__gte=since), "finished_at").annotate(
        errors=Count("id", filter=is_error), succeeded=Count("id", filter=~is_error)
    )
    by_hour: dict[int, dict[str, Any]] = {first + number: {} for number in range(HOURS)}
    for rows in (accepted, waited, ended):
        for row in rows:
            if row["hour"] in by_hour:
                by_hour[row["hour"]].update(row)
    return [
        Hour(
            start=hour * HOUR_MS,
            accepted=found.get("count", 0),
            wait_average=None if found.get("average") is None else float(found["average"]),
            wait_longest=found.get("longest"),
            succeeded=found.get("succeeded", 0),
            errors=found.get("errors", 0),
        )
        for hour, found in by_hour.items()
    ]


def _by_hour(runs: QuerySet[Run], field: str) -> QuerySet[Run, Any]:
    hours: QuerySet[Run, Any] = runs.order_by().annotate(hour=F(field) / HOUR_MS).values("hour")
    return hours


def spend_by_day(now: int) -> list[tuple[int, float, int]]:
    """The last 14 days of UTC as (start, cost, requests), today last."""
    first = now // DAY_MS - DAYS + 1
    entries = UsageEntry.objects.filter(created_at__gte=first * DAY_MS).order_by()
    days = entries.annotate(day=F("created_at") / DAY_MS).values("day")
    found = {row["day"]: row for row in days.annotate(cost=Sum("cost"), requests=Count("id"))}
    return [
        (day * DAY_MS, found[day]["cost"], found[day]["requests"])
        if day in found
        else (day * DAY_MS, 0.0, 0)
        for day in range(first, first + DAYS)
    ]


def sub_agents_by_state() -> dict[str, int]:
    """The number of sub-agents in each state, except those that have ended."""
    live = SubAgent.objects.exclude(state=SubAgentState.ENDED).order_by()
    found = live.values_list("state").annotate(count=Count("run_id"))
    return dict(found)


def sub_agents_by_hour(now: int, after: int) -> list[tuple[int, int]]:
    """The last 24 hours as (start, started sub-agents), the present one last."""
    first = now // HOUR_MS - HOURS + 1
    since = first * HOUR_MS
    recent = SubAgent.objects.filter(run_id__gt=after)
    rows = recent.filter(started_at__gte=since).order_by()
    by_hour = rows.annotate(hour=F("started_at") / HOUR_MS).values_list("hour")
    found = dict(by_hour.annotate(count=Count("run_id")))
    return [(hour * HOUR_MS, found.get(hour, 0)) for hour in range(first, first + HOURS)]


def open_ones(model: type[Model]) -> Open:
    """The requests or questions that wait; both name this state the same."""
    waiting = model._default_manager.filter(state=BatchState.PENDING)
    found = waiting.aggregate(count=Count("pk"), oldest=Min("asked_at"))
    return Open(found["count"], found["oldest"])
