"""Sends spans to a collector by OTLP over HTTP: the one module that uses OpenTelemetry.

``OTEL_EXPORTER_OTLP_ENDPOINT`` names the collector; the other variables of OpenTelemetry set its
headers, the sizes of batches and the sampling. A thread sends the spans. What waits is bounded, so
a collector that does not answer costs spans and no time.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from crushsite.monitoring.traces import EndedSpan, TraceExport
from workspaces.log.log_throttle import LogThrottle
from workspaces.release import VERSION
from workspaces.tracing import OpenSpan, as_traceparent, parse_traceparent

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Span

logger = logging.getLogger(__name__)

STOP_SECONDS = 2.0
LOG_SECONDS = 60.0
VALUE_CHARS = 500
_PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def trace_export(*, kind: str, instance_id: str) -> TraceExport | None:
    """Returns the way to the collector that the environment names; ``None`` without one."""
    if not any(os.environ.get(name) for name in _ENDPOINTS) or _is_off():
        return None
    try:
        is_installed = all(find_spec(name) is not None for name in _PACKAGES)
    except ModuleNotFoundError:  # of a parent package
        is_installed = False
    if not is_installed:
        logger.warning(
            "no traces are sent: install the extra, `pip install 'crush-server[otel]'`, or unset %s",
            _ENDPOINTS[1],
        )
        return None
    return OtlpExport(kind=kind, instance_id=instance_id)


def _is_off() -> bool:
    is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return is_disabled or os.environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp"


class OtlpExport:
    def __init__(self, *, kind: str, instance_id: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415  an extra
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  the same
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  the same
        from opentelemetry.sdk.trace.export import (  # noqa: PLC0415  the same
            BatchSpanProcessor,
            SpanExporter,
            SpanExportResult,
        )
        from opentelemetry.sdk.trace.id_generator import IdGenerator  # noqa: PLC0415  the same
        from opentelemetry.sdk.trace.sampling import Decision  # noqa: PLC0415  the same

        # Its lines repeat with each batch, and may have the address.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        throttle = LogThrottle(interval_seconds=LOG_SECONDS)

        class Reporting(SpanExporter):
            """Reports in one line a minute that spans are lost."""

            def __init__(self) -> None:
                self._exporter = OTLPSpanExporter()

            @override
            def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
                result = self._exporter.export(spans)
                if result is not SpanExportResult.SUCCESS and throttle.admit("export") is not None:
                    logger.warning("the collector does not take spans: they are dropped")
                return result

            @override
            def shutdown(self) -> None:
                self._exporter.shutdown()  # type: ignore[no-untyped-call]

        class GivenIds(IdGenerator):
            """The ids of the next span, or random ones."""

            given: EndedSpan | None = None

            @override
            def generate_span_id(self) -> int:
                return secrets.randbits(64) or 1 if self.given is None else self.given.span_id

            @override
            def generate_trace_id(self) -> int:
                return secrets.randbits(128) or 1 if self.given is None else self.given.trace_id

        named = {
            "service.version": VERSION,
            "service.instance.id": instance_id,
            "crush.process.kind": kind,
        }
        if "service.name" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
            named["service.name"] = os.environ.get("OTEL_SERVICE_NAME") or "crush-server"
        self._recorded = Decision.RECORD_AND_SAMPLE
        self._ids = GivenIds()
        self._processor = BatchSpanProcessor(Reporting())
        self._provider = TracerProvider(
            resource=Resource.create(named), id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(self._processor)
        self._tracer = self._provider.get_tracer("crush-server", VERSION)

    def begin(self, name: str, *, parent: str, is_request: bool) -> OpenSpan:
        from opentelemetry.trace import SpanKind  # noqa: PLC0415  an extra

        kind = SpanKind.SERVER if is_request else SpanKind.INTERNAL
        context = self._context(parse_traceparent(parent))
        return _LiveSpan(self._tracer.start_span(name, context=context, kind=kind))

    def add(self, span: EndedSpan) -> None:
        from opentelemetry.trace import SpanKind  # noqa: PLC0415  an extra

        above = None
        if span.parent_id is not None:
            is_sampled = self._is_sampled(span) if span.is_sampled is None else span.is_sampled
            above = span.trace_id, span.parent_id, is_sampled
        self._ids.given = span
        try:
            opened = self._tracer.start_span(
                span.name[:VALUE_CHARS],
                context=self._context(above),
                kind=SpanKind.CLIENT if span.calls_out else SpanKind.INTERNAL,
                attributes=_bounded(span.facts),
                start_time=_nanoseconds(span.started_at),
            )
        finally:
            self._ids.given = None
        if span.error:
            _fail(opened, span.error)
        opened.end(end_time=_nanoseconds(span.ended_at))

    def stop(self) -> None:
        # The processor waits for a request to the collector, however long that takes.
        sending = threading.Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        sending.join(STOP_SECONDS)

    def _is_sampled(self, span: EndedSpan) -> bool:
        """Whether the trace of a run without a traced request is sampled: as for its first span."""
        found = self._provider.sampler.should_sample(None, span.trace_id, span.name)
        return found.decision is self._recorded

    def _context(self, parent: tuple[int, int, bool] | None) -> Context:
        from opentelemetry import trace  # noqa: PLC0415  an extra
        from opentelemetry.context import Context  # noqa: PLC0415  the same

        if parent is None:
            return Context()
        trace_id, span_id, is_sampled = parent
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if is_sampled else 0)
        above = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
        return trace.set_span_in_context(trace.NonRecordingSpan(above), Context())


class _LiveSpan:
    def __init__(self, span: Span) -> None:
        self._span = span

    @property
    def traceparent(self) -> str:
        context = self._span.get_span_context()
        is_sampled = context.trace_flags.sampled
        return as_traceparent(context.trace_id, context.span_id, is_sampled=is_sampled)

    def end(self, facts: dict[str, Any], *, is_failure: bool) -> None:
        self._span.set_attributes(_bounded(facts))
        status = facts.get("http.response.status_code", 0)
        if is_failure or status >= 500:
            _fail(self._span, str(status or "error"))
        self._span.end()


def _fail(span: Span, error: str) -> None:
    from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415  an extra

    span.set_attribute("error.type", error)
    span.set_status(Status(StatusCode.ERROR))


def _bounded(facts: Mapping[str, Any]) -> dict[str, Any]:
    # Models and configurations choose some of the values.
    return {
        name: value[:VALUE_CHARS] if isinstance(value, str) else value
        for name, value in facts.items()
    }


def _nanoseconds(moment: float) -> int:
    return round(moment * 1000) * 1_000_000
