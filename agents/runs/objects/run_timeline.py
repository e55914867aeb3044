"""How long each part of a run took: its wait, requests to models, tool calls and people's answers.

Times are written in the transaction that writes the reply or the result anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.llm.usage import RequestUsage
from agents.models import Run, RunStep
from agents.states import StepKind
from permissions.models import PermissionRequest, QuestionBatch
from workspaces.log.parts import ToolResult
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.measuring import Measured, measure

MOST_ENTRIES = 5_000

# One or two for each step of a run, where a statement takes 8 µs and the ORM 64 (python -m
# tests.bench.framework).
_INSERT = (
    "INSERT INTO agents_runstep (run_key, kind, name, provider, message_id, call_id, outcome,"
    " attempts, started_at, first_at, ended_at, prompt_tokens, completion_tokens, cost,"
    " response_model) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)


@dataclass(slots=True)
class ReplyTimes:
    """Moments of a request to a model, in milliseconds, and who replied."""

    started_at: int
    first_at: int | None = None  # when its first text came
    attempts: int = 1
    model: str = ""  # that has replied, as its provider names it

    def mark_text(self) -> None:
        self.first_at = self.first_at or now_ms()

    def restart(self, attempt: int) -> None:
        self.first_at, self.attempts = None, attempt


def store_reply_step(
    tx: Transaction,
    run_key: int,
    times: ReplyTimes,
    used: RequestUsage,
    *,
    kind: StepKind,
    served_by: tuple[str, str],
    message_id: str,
    outcome: str,
) -> None:
    """Stores a request to a model; ``served_by`` names its provider and its model."""
    provider, model = served_by
    who = [run_key, kind.value, model, provider, message_id, ""]
    moments = [times.attempts, times.started_at, times.first_at, tx.now]
    costs = [used.prompt_tokens, used.completion_tokens, used.cost, times.model or None]
    tx.execute(_INSERT, [*who, outcome, *moments, *costs])


def store_call_steps(
    tx: Transaction, run_key: int, results: Sequence[ToolResult], started: Mapping[str, int]
) -> None:
    """Stores the calls with these results; ``started`` has those whose tools have run."""
    rows = []
    for result in results:
        if (call_id := result.tool_call_id) in started:
            outcome = "error" if result.is_error else "done"
            who = [run_key, StepKind.CALL.value, result.name, "", "", call_id, outcome, 1]
            rows.append([*who, started[call_id], None, tx.now, 0, 0, 0.0, None])
    if rows:
        tx.execute_many(_INSERT, rows)


def measure_step(
    times: ReplyTimes | None, served_by: tuple[str, str], tools: Sequence[tuple[str, int]]
) -> None:
    """Reports how long a stored request to a model and stored tool calls took.

    ``tools``: the name of each called tool, and when the call started.
    """
    now = now_ms()
    if times is not None:
        measure(Measured.MODEL, (now - times.started_at) / 1000, *served_by)
        if times.first_at is not None:
            measure(Measured.FIRST_TEXT, (times.first_at - times.started_at) / 1000, *served_by)
        if times.attempts > 1:
            measure(Measured.MODEL_RETRY, times.attempts - 1, *served_by)
    for name, started_at in tools:
        measure(Measured.TOOL, (now - started_at) / 1000, name)


def run_timeline(run: Run) -> tuple[list[dict[str, Any]], bool]:
    """Returns what the run did and waited for, in the order of time, and whether that is all."""
    steps = RunStep.objects.filter(run_key=run.pk).order_by("pk")[: MOST_ENTRIES + 1]
    entries = [_step(step) for step in steps]
    is_complete = len(entries) <= MOST_ENTRIES
    entries = [_entry("queue", "", run.accepted_at, run.started_at), *entries[:MOST_ENTRIES]]
    for request in PermissionRequest.objects.filter(run_key=run.pk)[:MOST_ENTRIES]:
        entries.append(_answer("approval", request.tool_name, request))
    for batch in QuestionBatch.objects.filter(run_key=run.pk)[:MOST_ENTRIES]:
        entries.append(_answer("questions", "question", batch))
    children = Run.objects.filter(parent_id=run.pk)
    for child in children.only("pk", *_OF_CHILD)[:MOST_ENTRIES]:
        more = {"run_key": child.pk, "call_id": child.parent_call_id, "outcome": child.outcome}
        name = child.role or child.kind
        entries.append(_entry("child_run", name, child.accepted_at, child.finished_at, **more))
    return sorted(entries, key=lambda entry: float(entry["started_at"])), is_complete


_OF_CHILD = ("accepted_at", "finished_at", "parent_call_id", "outcome", "role", "kind")


def _step(step: RunStep) -> dict[str, Any]:
    entry = _entry(step.kind, step.name, step.started_at, step.ended_at, outcome=step.outcome)
    if step.kind == StepKind.CALL:
        return entry | {"call_id": step.call_id}
    return entry | {
        "provider": step.provider,
        "message_id": step.message_id,
        "first_at": _seconds(step.first_at),
        "attempts": step.attempts,
        "prompt_tokens": step.prompt_tokens,
        "completion_tokens": step.completion_tokens,
        "cost": step.cost,
    }


def _answer(kind: str, name: str, row: PermissionRequest | QuestionBatch) -> dict[str, Any]:
    more = {"id": row.pk, "call_id": row.tool_call_id, "outcome": str(row.state)}
    return _entry(kind, name, row.asked_at, row.answered_at, **more, author=row.author)


def _entry(
    kind: str, name: str, started_at: int, ended_at: int | None, **more: Any
) -> dict[str, Any]:
    moments = {"started_at": started_at / 1000, "ended_at": _seconds(ended_at)}
    return {"kind": kind, "name": name, **moments, **more}


def _seconds(moment: int | None) -> float | None:
    return None if moment is None else moment / 1000
