"""Drives actions and claims directly: one transaction a call, without a server or a runner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from agents.llm.contract import Usage
from agents.llm.usage import RequestUsage
from agents.models import Run, RunKind
from agents.runs.accept import Prompt, accept_prompt
from agents.runs.lease import Lease
from agents.runs.prompting.begin import begin_run
from agents.runs.queries import held_runs
from agents.runs.rows import Claimed
from agents.runs.steps import ReplyStart, ReplyWrite, Step, Written, write_step
from agents.runs.transitions import claim_runs
from agents.states import CutRule, RunOutcome
from agents.turn.effects import End
from workspaces.access import Actor
from workspaces.actions.processes import ProcessFacts, mark_lost, register
from workspaces.actions.sessions import create_session
from workspaces.actions.workspaces import Opening, open_workspace
from workspaces.log.commits import run_alone
from workspaces.log.parts import FinishReason, Part, Text, ToolCall, ToolResult
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.models import ClientClaim, Event, Message, RegisteredProcess

T = TypeVar("T")

LEASE_MS = 60_000


def write(job: Callable[[Transaction], T]) -> T:
    return run_alone("", job)[0]


@dataclass(frozen=True)
class Ground:
    """A workspace with one client and one session."""

    workspace_id: str
    session_id: str

    def new_session(self, title: str = "another") -> str:
        session = write(lambda tx: create_session(tx, self.workspace_id, title=title))
        return str(session["id"])

    def accept(
        self,
        text: str = "go",
        *,
        session_id: str = "",
        kind: RunKind = RunKind.PROMPT,
        client_id: str = "",
        actor: Actor | None = None,
        **more: Any,
    ) -> int:
        prompt = Prompt(session_id or self.session_id, text, **more)
        return write(
            lambda tx: accept_prompt(
                tx, self.workspace_id, prompt, kind=kind, client_id=client_id, actor=actor
            )
        )

    def start(self, text: str = "go", **more: Any) -> Lease:
        """A prompt that a worker has claimed and begun."""
        key = self.accept(text, **more)
        return begin(held_by(key, *claim()))

    def events(self, kind: str) -> list[dict[str, Any]]:
        rows = Event.objects.filter(workspace_id=self.workspace_id, kind=kind).order_by("number")
        return [orjson.loads(row.payload) for row in rows]


def open_ground(path: str = "/project") -> Ground:
    workspace = write(lambda tx: open_workspace(tx, Opening(path, "/data")))
    ClientClaim.objects.create(workspace_id=workspace.pk, client_id="c", expires_at=10**15)
    session = write(lambda tx: create_session(tx, workspace.pk, title="The first"))
    return Ground(workspace.pk, session["id"])


def register_worker(worker: str) -> None:
    """Registers a process, unless it is registered already."""
    facts = ProcessFacts("worker", "host", 7, "0.1.0", started_at=now_ms(), most_runs=500)
    if not RegisteredProcess.objects.filter(pk=worker).exists():
        write(lambda tx: register(tx, worker, facts, expires_at=tx.now + LEASE_MS))


def claim(worker: str = "worker", *, limit: int = 9, **more: Any) -> list[Claimed]:
    register_worker(worker)
    return write(lambda tx: claim_runs(tx, worker=worker, limit=limit, **more))


def cancelled_of(worker: str) -> list[tuple[int, int]]:
    """The runs, with their fences, that the worker finds cancelled when it looks."""
    return [(run.key, run.fence) for run in held_runs(worker) if run.is_cancelled]


def lose(worker: str = "worker") -> None:
    """Other processes notice that this one does not renew its registration."""
    assert write(lambda tx: mark_lost(tx, worker, renewed_until=10**15))


def held_by(key: int, *claimed: Claimed) -> Lease:
    (run,) = (one for one in claimed if one.key == key)
    return Lease(run.key, run.fence, run.workspace_id, run.session_id)


def begin(held: Lease) -> Lease:
    write(lambda tx: begin_run(tx, held))
    return held


def step(held: Lease, *, begins: Sequence[str] | Mapping[str, str] = (), **effects: Any) -> Written:
    """A step of the run. ``begins``: calls, each with its rule, or with the usual one."""
    rules = begins if isinstance(begins, Mapping) else dict.fromkeys(begins, CutRule.REPORT)
    effects["begins"] = rules
    return write(lambda tx: write_step(tx, held, Step(**effects)))


def say(held: Lease, words: str = "", calls: Sequence[str] = ()) -> str:
    """The model's reply with these calls, stored whole; returns its message's id."""
    step(held, start=ReplyStart("model", "provider"))
    message = Message.objects.filter(run_key=held.key, role="assistant").latest("position")
    parts: list[Part] = [Text(words)] if words else []
    parts += [ToolCall(call_id, "bash", "{}", finished=True) for call_id in calls]
    reason = FinishReason.TOOL_USE if calls else FinishReason.END_TURN
    step(held, reply=ReplyWrite(message.pk, tuple(parts), reason))
    return message.pk


def used(prompt: int = 0, completion: int = 0, cost: float = 0.0) -> RequestUsage:
    return RequestUsage("provider", "model", Usage(prompt, completion), cost)


def result(call_id: str, content: str = "done") -> ToolResult:
    return ToolResult(call_id, "bash", content)


def end(held: Lease, outcome: RunOutcome = RunOutcome.COMPLETED) -> Written:
    return step(held, end=End(outcome))


def run_of(key: int) -> Run:
    return Run.objects.get(pk=key)


def open_calls(key: int) -> list[str]:
    return list(orjson.loads(run_of(key).open_calls))


def results_of(held: Lease) -> dict[str, tuple[str, bool]]:
    """By call: the content of its result, and whether it is an error."""
    found = {}
    for message in Message.objects.filter(run_key=held.key, role="tool").order_by("position"):
        for part in orjson.loads(message.parts):
            if part["type"] == "tool_result":
                data = part["data"]
                assert data["tool_call_id"] not in found, "a call has two results"
                found[data["tool_call_id"]] = (data["content"], data["is_error"])
    return found
