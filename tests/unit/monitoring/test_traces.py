"""Trace contexts, and what tracing costs where nothing is traced."""

import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.isolation import scrubbed
from workspaces.log.errors import BadField
from workspaces.tracing import (
    as_traceparent,
    current_trace,
    parse_traceparent,
    trace_with,
    traced,
    with_trace,
)

VALID = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
IDS = (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)


class Span:
    def __init__(self, name: str, parent: str, number: int) -> None:
        self.name, self.parent = name, parent
        self.traceparent = as_traceparent(1, number, is_sampled=True)
        self.ended: tuple[dict[str, Any], bool] | None = None

    def end(self, facts: dict[str, Any], *, is_failure: bool) -> None:
        self.ended = (facts, is_failure)


class Recording:
    def __init__(self) -> None:
        self.spans: list[Span] = []

    def begin(self, name: str, *, parent: str, is_request: bool) -> Span:
        self.spans.append(Span(name, parent, len(self.spans) + 1))
        return self.spans[-1]


@pytest.fixture
def tracer() -> Any:
    recording = Recording()
    trace_with(recording)
    yield recording
    trace_with(None)


def test_a_trace_context_is_read_and_written() -> None:
    assert parse_traceparent(VALID) == (*IDS, True)
    assert parse_traceparent(VALID[:-2] + "02") == (*IDS, False)
    assert as_traceparent(*IDS, is_sampled=True) == VALID
    later = "cc" + VALID[2:]
    assert parse_traceparent(later) == parse_traceparent(f"{later}-more") == (*IDS, True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        VALID.upper(),
        f"{VALID}-more",
        f" {VALID}",
        f"{VALID}\n",
        "ff" + VALID[2:],
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
        "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
    ],
)
def test_other_texts_are_no_trace_context(text: str) -> None:
    assert parse_traceparent(text) is None


def test_blocks_are_nested_and_end_with_their_facts(tracer: Recording) -> None:
    def refuse() -> None:
        with traced("inner"):
            raise BadField("x")

    with traced("outer", remote=VALID) as facts:
        facts["status"] = 202
        with pytest.raises(BadField):
            refuse()
        assert current_trace() == tracer.spans[0].traceparent
    assert current_trace() is None
    outer, inner = tracer.spans
    assert (outer.parent, inner.parent) == (VALID, outer.traceparent)
    assert outer.ended == ({"status": 202}, False)
    assert inner.ended == ({}, True)


def test_another_thread_has_the_trace_of_its_job(tracer: Recording) -> None:
    found: list[str | None] = []
    with traced("request"):
        job = with_trace(lambda: found.append(current_trace()))
    for work in (job, lambda: found.append(current_trace())):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == [tracer.spans[0].traceparent, None]


def test_without_a_tracer_nothing_is_traced() -> None:
    def job() -> None:
        """As a writer's."""

    with traced("request"):
        assert current_trace() is None
        assert with_trace(job) is job


_SCRIPT = """
import os, sys
{before}
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crushsite.settings")
import django
django.setup()
from crushsite.monitoring.otlp import trace_export
import crushsite.process
print(trace_export(kind="serve", instance_id="i") is None,
      any(name.startswith("opentelemetry.sdk") and module for name, module in sys.modules.items()))
"""


def _found(tmp_path: Any, before: str = "", **env: str) -> tuple[list[str], str]:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT.format(before=before)],
        env={**scrubbed(dict(os.environ)), "CRUSH_DATA_DIR": str(tmp_path), **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.split(), done.stderr


COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


def test_without_a_collector_opentelemetry_is_not_imported(tmp_path: Any) -> None:
    for env in (
        {},
        {**COLLECTOR, "OTEL_SDK_DISABLED": "true"},
        {**COLLECTOR, "OTEL_TRACES_EXPORTER": "none"},
    ):
        assert _found(tmp_path, **env) == (["True", "False"], "")


def test_without_the_extra_a_line_names_it(tmp_path: Any) -> None:
    found, log = _found(tmp_path, "sys.modules['opentelemetry.sdk'] = None", **COLLECTOR)
    assert found == ["True", "False"]
    assert "pip install 'crush-server[otel]'" in log


def test_with_both_spans_are_sent(tmp_path: Any) -> None:
    found, _ = _found(tmp_path, **COLLECTOR)
    assert found == ["False", "True"]
