"""Traces of requests, independent of where they are sent. Without a tracer they cost nothing.

A trace is named by a ``traceparent`` of the W3C. That of the current request is stored with each
run that the request starts, because another process may perform the run.
"""

from __future__ import annotations

import contextvars
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

Job = TypeVar("Job", bound=Callable[..., Any])

# Version, trace, span, flags. A later version may have more behind them.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class OpenSpan(Protocol):
    @property
    def traceparent(self) -> str: ...

    def end(self, facts: dict[str, Any], *, is_failure: bool) -> None: ...


class Tracer(Protocol):
    def begin(self, name: str, *, parent: str, is_request: bool) -> OpenSpan:
        """``parent``: a traceparent, or empty text for a new trace."""
        ...


_tracer: list[Tracer] = []
_current = contextvars.ContextVar("traceparent", default="")


def trace_with(tracer: Tracer | None) -> None:
    _tracer[:] = [] if tracer is None else [tracer]


def is_traced() -> bool:
    return bool(_tracer)


def current_trace() -> str | None:
    """Returns the traceparent of the innermost block of ``traced``."""
    return _current.get() or None


def parse_traceparent(text: str) -> tuple[int, int, bool] | None:
    """Returns the ids of the trace and of the span, and whether it is sampled; else ``None``."""
    match = _TRACEPARENT.fullmatch(text)
    if match is None or (match[4] and text.startswith("00")):
        return None
    trace_id, span_id = int(match[1], 16), int(match[2], 16)
    return (trace_id, span_id, bool(int(match[3], 16) & 1)) if trace_id and span_id else None


def as_traceparent(trace_id: int, span_id: int, *, is_sampled: bool) -> str:
    return f"00-{trace_id:032x}-{span_id:016x}-{int(is_sampled):02x}"


@contextmanager
def traced(name: str, *, remote: str = "", is_request: bool = False) -> Iterator[dict[str, Any]]:
    """Traces a block, which may add facts. ``remote``: the traceparent that a request has sent."""
    facts: dict[str, Any] = {}
    if not _tracer:
        yield facts
        return
    span = _tracer[0].begin(name, parent=remote or _current.get(), is_request=is_request)
    before = _current.set(span.traceparent)
    is_failure = True
    try:
        yield facts
        is_failure = False
    finally:
        _current.reset(before)
        span.end(facts, is_failure=is_failure)


def with_trace(job: Job) -> Job:
    """Returns the job for another thread, where it has the current trace, too."""
    if not _current.get():
        return job
    found: Any = partial(contextvars.copy_context().run, job)
    return found  # type: ignore[no-any-return]
