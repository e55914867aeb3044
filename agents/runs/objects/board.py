"""What the sessions of several workspaces are doing, for a page that shows all of them.

Every open page reads this every two seconds. So the number of queries does not depend on the number
of workspaces, and no query reads whole conversations.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from operator import or_
from typing import Any

import orjson
from django.db.models import Max, Min, OuterRef, Q, QuerySet, Subquery

from agents.models import Run
from agents.runs.objects.run_details import DEEPEST
from agents.states import BoardState, RunOutcome, RunState
from permissions.models import BatchState, PermissionRequest, QuestionBatch, RequestState
from workspaces.log.parts import Role
from workspaces.log.timestamps import as_seconds
from workspaces.models import Message, Session, Workspace

LINE_CHARS = 200
MOST_WAITING = 500
MOST_CACHED = 1_000
CACHED_SECONDS = 60.0  # an operator may change rows without an event

_AFTER: Mapping[str, BoardState] = {
    RunOutcome.COMPLETED: BoardState.DONE,
    RunOutcome.FAILED: BoardState.FAILED,
    RunOutcome.INTERRUPTED: BoardState.INTERRUPTED,
    RunOutcome.OVER_BUDGET: BoardState.OVER_BUDGET,
}
# Of each workspace without work the number of its newest event, when it was read, and the sessions.
_idle: dict[tuple[str, int], tuple[int, float, list[dict[str, Any]]]] = {}


def board_sessions(numbers: Mapping[str, int], limit: int) -> dict[str, list[dict[str, Any]]]:
    """Returns the newest sessions of each workspace, and all that work or wait for a person.

    ``numbers``: of each workspace the number of its newest event. While that stays the same and
    nothing works, the sessions stay the same, too: they are not read again.
    """
    waiting = _waiting(list(numbers))
    unfinished, working = _unfinished(list(numbers))
    working |= {entry["workspace_id"] for entry in waiting.values()}
    oldest = time.monotonic() - CACHED_SECONDS
    shown: dict[str, list[dict[str, Any]]] = {}
    for key, number in numbers.items():
        cached = _idle.get((key, limit))
        if cached and key not in working and cached[0] == number and cached[1] > oldest:
            shown[key] = cached[2]
    missing = [key for key in numbers if key not in shown]
    if missing:
        shown |= _read_sessions(missing, limit, waiting, unfinished)
        if len(_idle) > MOST_CACHED:
            _idle.clear()
        for key in missing:
            if key not in working:
                _idle[key, limit] = (numbers[key], time.monotonic(), shown[key])
    return shown


def _read_sessions(
    workspace_ids: Sequence[str],
    limit: int,
    waiting: Mapping[str, dict[str, Any]],
    unfinished: Mapping[str, Mapping[str, int]],
) -> dict[str, list[dict[str, Any]]]:
    found = list(_sessions(workspace_ids, limit, {*waiting, *unfinished}))
    outcomes = _finished([row["newest_run"] for row in found])
    messages = Message.objects.filter(pk__in=[row["newest_message"] for row in found])
    parts = dict(messages.values_list("pk", "parts"))
    shown: dict[str, list[dict[str, Any]]] = {each: [] for each in workspace_ids}
    for row in found:
        own, key = shown[row["workspace_id"]], row["id"]
        if len(own) < limit or key in waiting or key in unfinished:
            line = last_line(parts.get(row["newest_message"], "[]"))
            own.append(_session(row, line, _state(row, waiting.get(key), unfinished, outcomes)))
    return shown


def _session(row: Mapping[str, Any], line: str, state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "title": row["title"],
        "last_line": line,
        "cost": row["cost"],
        "updated_at": as_seconds(row["updated_at"]),
        **state,
    }


def _state(
    row: Mapping[str, Any],
    waiting: dict[str, Any] | None,
    unfinished: Mapping[str, Mapping[str, int]],
    outcomes: Mapping[int, tuple[str, int]],
) -> dict[str, Any]:
    """Returns what the session is doing, since when, and when it ended."""
    runs = unfinished.get(row["id"], {})
    if waiting is not None:
        return _moments(BoardState.WAITING, waiting["since"], waiting=waiting["request"])
    for state in (RunState.RUNNING, RunState.PARKED, RunState.READY):
        if state in runs:
            return _moments(BoardState.WORKING, runs[state])
    if runs:
        return _moments(BoardState.QUEUED, runs[RunState.ACCEPTED])
    outcome, ended_at = outcomes.get(row["newest_run"], ("", row["updated_at"]))
    after = _AFTER.get(outcome, BoardState.IDLE)
    return _moments(after, ended_at, ended_at=ended_at if outcome else None)


def _moments(
    state: BoardState,
    since: int,
    *,
    ended_at: int | None = None,
    waiting: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "state": state.value,
        "since": as_seconds(since),
        "ended_at": None if ended_at is None else as_seconds(ended_at),
        "waiting": waiting,
    }


def _unfinished(workspace_ids: Sequence[str]) -> tuple[dict[str, dict[str, int]], set[str]]:
    """Returns of each session its unfinished runs' states with their beginnings, and workspaces."""
    rows = (
        Run.objects.filter(workspace_id__in=workspace_ids)
        .exclude(state=RunState.FINISHED)
        .order_by()
        .values_list("workspace_id", "session_id", "state")
        .annotate(accepted=Min("accepted_at"), started=Max("started_at"))
    )
    found: dict[str, dict[str, int]] = {}
    working = set()
    for workspace_id, session_id, state, accepted, started in rows:
        found.setdefault(session_id, {})[state] = started or accepted
        working.add(workspace_id)
    return found, working


def _finished(keys: Iterable[int | None]) -> dict[int, tuple[str, int]]:
    rows = Run.objects.filter(pk__in=[key for key in keys if key], state=RunState.FINISHED)
    return {
        key: (outcome, finished_at or 0)
        for key, outcome, finished_at in rows.values_list("pk", "outcome", "finished_at")
    }


def _waiting(workspace_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns the oldest open request or question of each top session, or of one below it."""
    requests = PermissionRequest.objects.filter(
        workspace_id__in=workspace_ids, state=RequestState.PENDING
    ).order_by("asked_at")[:MOST_WAITING]
    batches = QuestionBatch.objects.filter(
        workspace_id__in=workspace_ids, state=BatchState.PENDING
    ).order_by("asked_at")[:MOST_WAITING]
    found: list[tuple[int, str, str, dict[str, str]]] = []
    columns = ("pk", "workspace_id", "session_id", "asked_at", "tool_name", "description", "action")
    for key, within, session_id, at, tool, description, action in requests.values_list(*columns):
        title = short_line(description) or f"{tool}: {action}"
        shown = {"kind": "approval", "id": key, "tool_name": tool, "title": title}
        found.append((at, within, session_id, shown))
    of_batch = ("pk", "workspace_id", "session_id", "asked_at", "questions", "confirm_title")
    for key, within, session_id, at, questions, confirm in batches.values_list(*of_batch):
        first = confirm or next((str(each.get("question", "")) for each in questions), "")
        shown = {"kind": "questions", "id": key, "tool_name": "question"}
        found.append((at, within, session_id, shown | {"title": short_line(first)}))
    tops = _top_sessions({each[2] for each in found})
    waiting: dict[str, dict[str, Any]] = {}
    for at, within, session_id, shown in sorted(found, key=lambda each: each[0]):
        entry = {
            "workspace_id": within,
            "since": at,
            "request": shown | {"session_id": session_id},
        }
        waiting.setdefault(tops.get(session_id, session_id), entry)
    return waiting


def _top_sessions(session_ids: set[str]) -> dict[str, str]:
    """Returns the top session of each child session."""
    top = {session_id: session_id for session_id in session_ids}
    level = session_ids
    for _ in range(DEEPEST):
        parents = dict(
            Session.objects.filter(pk__in=level)
            .exclude(parent_session_id="")
            .values_list("pk", "parent_session_id")
        )
        if not parents:
            break
        top = {session_id: parents.get(at, at) for session_id, at in top.items()}
        level = set(parents.values())
    return top


def _sessions(
    workspace_ids: Sequence[str], limit: int, busy: set[str]
) -> QuerySet[Session, dict[str, Any]]:
    listed = Session.objects.filter(
        parent_session_id="", archived_at__isnull=True, is_deleting=False
    )
    own = listed.filter(workspace_id=OuterRef("pk")).order_by("-updated_at")
    since = Workspace.objects.filter(pk__in=workspace_ids).values_list(
        "pk", Subquery(own.values("updated_at")[limit - 1 : limit])
    )
    newest = [Q(workspace_id=key, updated_at__gte=moment or 0) for key, moment in since]
    runs = Run.objects.filter(session_id=OuterRef("pk")).exclude(outcome=RunOutcome.FOLDED)
    messages = Message.objects.filter(
        session_id=OuterRef("pk"), role__in=(Role.USER, Role.ASSISTANT)
    )
    rows: QuerySet[Session, Any] = (
        listed.filter(
            reduce(or_, newest, Q(pk__in=())) | Q(pk__in=busy, workspace_id__in=workspace_ids)
        )
        .annotate(
            newest_run=Subquery(runs.order_by("-accept_number").values("pk")[:1]),
            newest_message=Subquery(messages.order_by("-position").values("pk")[:1]),
        )
        .order_by("-updated_at", "-id")
        .values("id", "workspace_id", "title", "cost", "updated_at", "newest_run", "newest_message")
    )
    return rows


def last_line(parts: str) -> str:
    """Returns what a stored message ends with, on one line."""
    for part in reversed(orjson.loads(parts)):
        line = _line(part["type"], part["data"])
        if line:
            return line
    return ""


def first_line(parts: str) -> str:
    """Returns what a stored message begins with, on one line."""
    found = orjson.loads(parts)
    texts = (str(part["data"].get("text", "")) for part in found if part["type"] == "text")
    line = next((shown for text in texts if (shown := short_line(text.lstrip()))), "")
    return line or next((_line(part["type"], part["data"]) for part in found), "")


def _line(kind: str, data: Mapping[str, Any]) -> str:
    match kind:
        case "text":
            lines = reversed(str(data.get("text", "")).splitlines())
            return next((shown for line in lines if (shown := short_line(line))), "")
        case "tool_call":
            return _call(str(data.get("name", "")), str(data.get("input", "")))
        case "shell_command":
            return short_line(f"$ {data.get('command', '')}")
        case "finish":
            return short_line(str(data.get("message", "")))
        case _:
            return ""


def _call(name: str, arguments: str) -> str:
    """Returns the tool and its first argument that is a text."""
    first = ""
    with suppress(orjson.JSONDecodeError):  # the model is still writing it, or it is malformed
        given = orjson.loads(arguments)
        values = given.values() if isinstance(given, dict) else ()
        first = next((value for value in values if isinstance(value, str) and value), "")
    return short_line(f"{name}: {first}" if first else name)


def short_line(text: str) -> str:
    """Returns the beginning of a text on one line, without control characters."""
    words = " ".join(text[: LINE_CHARS * 4].split())
    line = "".join(each for each in words if each.isprintable()).strip()
    return line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1] + "…"
