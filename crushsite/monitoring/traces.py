"""Traces: the spans of a request and of the runs that it has started.

A run may wait for people, and move from one process to another. So its spans are read from its
stored timeline when it has ended, by the process that has stored the end. The ids of these spans
follow from the run: the spans of a child run find their parent without a message between processes.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from django.http import Http404
from django.urls import resolve

from agents.models import Run, RunKind, RunStep
from agents.runs.objects.run_timeline import run_timeline
from agents.states import RunOutcome, StepKind
from workspaces.log.parts import FinishReason
from workspaces.log.reader import read
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import Kind
from workspaces.tracing import Tracer, is_traced, parse_traceparent, trace_with, traced

logger = logging.getLogger(__name__)

Publish = Callable[[Sequence[RecordedEvent]], None]
Send = Callable[[Any], Awaitable[None]]
Respond = Callable[[Send], Awaitable[None]]

MOST_WAITING = 1_000  # ended runs whose spans have not been read; further ones have no spans
MOST_LEVELS = 20  # of child runs
STOP_SECONDS = 1.0
_FAILED = {RunOutcome.FAILED, RunOutcome.INTERRUPTED, RunOutcome.OVER_BUDGET}

# The names of the conventions for providers whose own id differs.
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertexai": "gcp.vertex_ai",
    "xai": "x_ai",
}
_REASONS = {
    FinishReason.END_TURN: "stop",
    FinishReason.MAX_TOKENS: "length",
    FinishReason.TOOL_USE: "tool_call",
}


@dataclass(frozen=True, slots=True)
class EndedSpan:
    """A span with its ids. ``is_sampled``: as its trace's first span, where that is known."""

    name: str
    trace_id: int
    span_id: int
    parent_id: int | None
    is_sampled: bool | None
    started_at: float
    ended_at: float
    facts: Mapping[str, Any]
    error: str = ""
    calls_out: bool = False


class TraceExport(Tracer, Protocol):
    def add(self, span: EndedSpan) -> None:
        """Takes a span without waiting for the collector."""
        ...

    def stop(self) -> None:
        """Sends what waits. May block for some seconds."""
        ...


class Traces:
    """The traces of this process. Used in the event loop."""

    def __init__(self) -> None:
        self._export: TraceExport | None = None
        self._ended: asyncio.Queue[int] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def start(self, export: TraceExport | None) -> None:
        """Without an export nothing is traced."""
        self._export = export
        if export is not None:
            trace_with(export)
            self._ended = asyncio.Queue(MOST_WAITING)
            self._task = asyncio.create_task(self._follow(export), name="traces")

    async def stop(self) -> None:
        """Sends what waits, if the collector takes it soon."""
        if self._export is None or self._task is None:
            return
        export, self._export = self._export, None
        trace_with(None)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._ended.join()
        except TimeoutError:
            logger.info("the last runs of this process have no spans")
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(export.stop)

    def watching(self, publish: Publish) -> Publish:
        """Wraps ``publish``: the spans of runs that have ended are read later."""

        def publish_and_note(recorded: Sequence[RecordedEvent]) -> None:
            publish(recorded)
            if self._export is None:
                return
            for event in recorded:
                if event.kind == Kind.RUN_FINISHED and not self._ended.full():
                    self._ended.put_nowait(event.payload["run"]["key"])

        return publish_and_note

    async def _follow(self, export: TraceExport) -> None:
        while True:
            key = await self._ended.get()
            try:
                for span in await read(spans_of, key):
                    export.add(span)
            except Exception as error:  # noqa: BLE001  a run without spans is no reason to stop
                logger.warning("the spans of a run are missing: %s", error, extra={"run": key})
            finally:
                self._ended.task_done()


TRACES = Traces()


# -- requests


async def traced_request(scope: Mapping[str, Any], send: Send, respond: Respond) -> None:
    """Responds to a request that writes, within a span."""
    if not is_traced():
        await respond(send)
        return
    method, route = scope["method"], _route(scope["path"])
    sent = next((value for name, value in scope["headers"] if name == b"traceparent"), b"")
    remote = sent.decode("latin-1")
    if parse_traceparent(remote) is None:
        remote = ""
    with traced(f"{method} {route}".rstrip(), remote=remote, is_request=True) as facts:
        facts |= {"http.request.method": method} | ({"http.route": route} if route else {})

        async def send_noting(message: Any) -> None:
            if message["type"] == "http.response.start":
                facts["http.response.status_code"] = message["status"]
            await send(message)

        await respond(send_noting)


def _route(path: str) -> str:
    """Returns the address without its ids; empty if there is none."""
    try:
        return f"/{resolve(path).route}"
    except Http404:
        return ""


# -- runs


@dataclass(frozen=True, slots=True)
class _Trace:
    """The trace of a run: ``context`` is its request's, if that was traced."""

    first: Run  # the run that no other one waits for
    context: tuple[int, int, bool] | None = field(init=False)

    def __post_init__(self) -> None:
        context = parse_traceparent(self.first.trace_context or "")
        object.__setattr__(self, "context", context)

    @property
    def trace_id(self) -> int:
        if self.context is not None:
            return self.context[0]
        first = self.first
        return _digest(16, first.workspace_id, first.pk, first.accepted_at)

    def span_id(self, *names: object) -> int:
        return _digest(8, self.trace_id, *names)

    def parent_of(self, run: Run) -> int | None:
        if run.parent_id is not None and run.pk != self.first.pk:
            return self.span_id(run.parent_id, "call", run.parent_call_id)
        return None if self.context is None else self.context[1]


def _digest(size: int, *names: object) -> int:
    text = "\0".join(map(str, names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size]) or 1


def spans_of(key: int) -> list[EndedSpan]:
    """Returns the spans of an ended run. Synchronous."""
    run = Run.objects.filter(pk=key).first()
    return [] if run is None else list(_spans(run))


def _spans(run: Run) -> Iterator[EndedSpan]:
    trace = _Trace(_first_of(run))
    parent, run_span = trace.parent_of(run), trace.span_id(run.pk, "run")
    is_sampled = None if trace.context is None else trace.context[2]
    about = {"gen_ai.conversation.id": run.session_id, "crush.run.key": run.pk}
    entries, _ = run_timeline(run)
    replied = RunStep.objects.filter(run_key=run.pk, response_model__isnull=False)
    models = dict(replied.values_list("message_id", "response_model"))
    for entry in entries:
        described = _described(entry)
        if described is None:
            continue
        name, facts, error = described
        is_wait = entry["kind"] == "queue"
        is_call = entry["kind"] in {StepKind.CALL, "child_run"}
        names = (
            ("call", entry["call_id"])
            if is_call
            else (entry["kind"], entry.get("message_id"), entry["started_at"])
        )
        yield EndedSpan(
            name,
            trace.trace_id,
            trace.span_id(run.pk, *names),
            parent if is_wait else run_span,
            is_sampled,
            entry["started_at"],
            max(entry["started_at"], entry["ended_at"] or _end(run)),
            about | facts | _response(models.get(entry.get("message_id") or "")),
            error,
            calls_out="gen_ai.provider.name" in facts,
        )
    if run.started_at is not None:
        facts = {
            "gen_ai.operation.name": "invoke_agent",
            "crush.run.kind": run.kind,
            "crush.run.outcome": run.outcome,
            "crush.workspace.id": run.workspace_id,
        }
        if run.role:
            facts["gen_ai.agent.name"] = run.role
        yield EndedSpan(
            f"invoke_agent {run.role}".rstrip(),
            trace.trace_id,
            run_span,
            parent,
            is_sampled,
            run.started_at / 1000,
            _end(run),
            about | facts,
            run.outcome if run.outcome in _FAILED else "",
        )


def _response(model: str | None) -> dict[str, str]:
    return {"gen_ai.response.model": model} if model else {}


def _first_of(run: Run) -> Run:
    for _ in range(MOST_LEVELS):
        if run.parent is None:
            break
        run = run.parent
    return run


def _end(run: Run) -> float:
    return (run.finished_at or run.started_at or run.accepted_at) / 1000


def _described(entry: Mapping[str, Any]) -> tuple[str, dict[str, Any], str] | None:
    """Returns the name of an entry's span, its facts, and its error."""
    kind, name, outcome = entry["kind"], entry["name"], entry.get("outcome", "")
    match kind:
        case StepKind.REPLY | StepKind.SUMMARY:
            provider = entry["provider"]
            facts = {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
                "gen_ai.request.model": name,
                "gen_ai.request.stream": True,
                "gen_ai.response.finish_reasons": [_REASONS.get(outcome, outcome)],
                "gen_ai.usage.input_tokens": entry["prompt_tokens"],
                "gen_ai.usage.output_tokens": entry["completion_tokens"],
                "crush.request.kind": kind,
                "crush.request.attempts": entry["attempts"],
            }
            if entry["first_at"] is not None:
                wait = entry["first_at"] - entry["started_at"]
                facts["gen_ai.response.time_to_first_chunk"] = wait
            return f"chat {name}", facts, outcome if outcome == FinishReason.ERROR else ""
        case StepKind.CALL | "child_run":
            if kind == "child_run":
                name = "agentic_fetch" if name == RunKind.FETCH else "agent"
            facts = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.call.id": entry["call_id"],
                "gen_ai.tool.type": "function",
            }
            is_error = outcome in {"error", *_FAILED}
            return f"execute_tool {name}", facts, "tool_error" if is_error else ""
        case "queue":
            return "queue", {}, ""
        case "approval" | "questions":
            facts = {"gen_ai.tool.name": name, "gen_ai.tool.call.id": entry["call_id"]}
            return f"wait for {kind}", facts | {"crush.answer": outcome}, ""
        case _:
            return None
