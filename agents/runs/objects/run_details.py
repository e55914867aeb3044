"""Runs as REST lists and shows them, with their timings and what they have used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Count, Sum
from django.db.models.functions import Coalesce

from agents.models import Run, UsageEntry
from agents.runs.claims.claim_order import queue_places
from agents.runs.objects.run_objects import PROMPT_SHOWN_CHARS, run_facts
from agents.states import CLAIMABLE, Priority
from workspaces.log.timestamps import as_seconds

_NOTHING: Mapping[str, Any] = {
    "requests": 0,
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "cost": 0.0,
}
DEEPEST = 16  # levels of child runs


def run_object(run: Run, usage: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Returns a run with the first characters of its prompt. ``usage``: its own, if it has any."""
    facts = run_facts(
        key=run.pk,
        session_id=run.session_id,
        accept_number=run.accept_number,
        run_id=run.run_id,
        message_id=run.message_id,
        kind=run.kind,
        author=run.author,
        cancelled_by=run.cancelled_by,
        strategy=run.strategy,
        priority=Priority.SCHEDULED.value if run.is_scheduled else None,
        options=run.options,
        replaces=run.replaces,
        rewind_id=run.rewind_id or None,
        retry_of=run.retry_of,
        folded_into=run.folded_into_id,
        parent=run.parent_id,
        budget=run.over_budget,
        error=run.error or None,
        outcome=run.outcome or None,
        started_at=_seconds(run.started_at),
        finished_at=_seconds(run.finished_at),
    )
    return facts | {
        "kind": run.kind,
        "prompt": run.prompt[:PROMPT_SHOWN_CHARS],
        "state": run.state,
        "was_queued": run.was_queued,
        "accepted_at": as_seconds(run.accepted_at),
        "usage": dict(usage or _NOTHING),
        **more,
    }


def _seconds(moment: int | None) -> int | None:
    return None if moment is None else as_seconds(moment)


def run_objects(runs: Iterable[Run]) -> list[dict[str, Any]]:
    rows = list(runs)
    used = usage_of([run.pk for run in rows])
    places = _places(rows)
    return [run_object(run, used.get(run.pk), **places.get(run.pk, {})) for run in rows]


def _places(runs: Iterable[Run]) -> dict[int, dict[str, int]]:
    waiting = {run.pk for run in runs if run.state in CLAIMABLE}
    places = queue_places(waiting) if waiting else {}
    return {key: {"queue_place": place} for key, place in places.items()}


def run_detail(run: Run, *, is_new: bool = False) -> dict[str, Any]:
    """Returns a run with its whole prompt, and what it has used together with its child runs.

    ``is_new``: it has just been accepted, and no worker has looked yet, so it has no place.
    """
    keys = _with_children(run.pk)
    used = usage_of(keys)
    total = {name: sum(use[name] for use in used.values()) for name in _NOTHING}
    children = list(
        Run.objects.filter(parent_id=run.pk).order_by("pk").values_list("pk", flat=True)
    )
    place = {} if is_new else _places([run]).get(run.pk, {})
    return run_object(
        run, used.get(run.pk), prompt=run.prompt, total_usage=total, children=children, **place
    )


def usage_of(keys: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Returns what each of these runs has used itself; those without any use are left out."""
    entries = (
        UsageEntry.objects.filter(run_key__in=list(keys)).values("run_key").order_by("run_key")
    )
    sums = entries.annotate(
        requests=Count("id"),
        **{
            name: Coalesce(Sum(name), 0 if name != "cost" else 0.0)
            for name in ("prompt_tokens", "completion_tokens", "cost")
        },
    )
    rows: list[dict[str, Any]] = [dict(row) for row in sums]
    return {row.pop("run_key"): row for row in rows}


def _with_children(key: int) -> list[int]:
    found = level = [key]
    for _ in range(DEEPEST):
        level = list(Run.objects.filter(parent_id__in=level).values_list("pk", flat=True))
        if not level:
            break
        found = [*found, *level]
    return found
