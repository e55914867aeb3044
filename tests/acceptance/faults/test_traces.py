"""Traces of prompts, as a collector of OpenTelemetry gets them."""

import asyncio
import json
import os
import socket
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import agents, bash
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.environment import ROOT
from tests.acceptance.harness.processes import Process
from tests.acceptance.harness.shapes import Shape
from tests.acceptance.serve.starting import Connect, MakeProject, MakeServer

Spans = list[dict[str, Any]]
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
REMOTE = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
# Parts of texts, arguments, results, addresses and credentials: no span may have them.
SECRETS = (
    "WORD-OF-THE-PROMPT",
    "printf",
    "word-of-the-output",
    "PASS-OF-THE-COLLECTOR",
    "127.0.0.1",
)


class Collector:
    def __init__(self, log: Path) -> None:
        self._process = Process(
            "collector",
            [sys.executable, "-m", "tests.doubles.trace_collector"],
            env={"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            log=log,
        )
        self._process.start()
        self.url = self._process.wait_for_line("listening").split()[1]
        self.env = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=PASS-OF-THE-COLLECTOR",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }

    def spans(self) -> Spans:
        with urllib.request.urlopen(f"{self.url}/spans", timeout=60) as answer:
            found: Spans = json.load(answer)
        return found

    async def spans_until(self, is_all: Callable[[Spans], bool]) -> Spans:
        async with asyncio.timeout(60):
            while not is_all(found := await asyncio.to_thread(self.spans)):
                await asyncio.sleep(0.05)
        return found

    def stop(self) -> None:
        self._process.kill9()


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    started = Collector(tmp_path / "collector.log")
    yield started
    started.stop()


async def prompt(seat: Seat, session: str, text: str, run_id: str) -> dict[str, Any]:
    address = f"/api/workspaces/{seat.workspace.id}/sessions/{session}/prompts"
    body = {"text": text, "run_id": run_id}
    http = seat.workspace.client.http
    run = await http.call("POST", address, body, headers=REMOTE, expect=202)
    await seat.stream.run_complete(session, run_id)
    return dict(run)


def runs_in(spans: Spans) -> int:
    return sum(span["name"].startswith("invoke_agent") for span in spans)


def tree(spans: Spans) -> dict[str, list[str]]:
    """The names of the spans below each span, in the order of their starts."""
    names = {span["id"]: span["name"] for span in spans}
    found: dict[str, list[str]] = {}
    for span in sorted(spans, key=lambda span: span["start"]):
        found.setdefault(names.get(span["parent"], span["parent"]), []).append(span["name"])
    return found


async def test_a_prompt_is_one_trace_from_its_request_to_its_tool(
    make_a_server: MakeServer,
    shape: Shape,
    collector: Collector,
    connect: Connect,
    project: MakeProject,
) -> None:
    server = make_a_server(shape, env=collector.env)
    await asyncio.to_thread(server.start)
    path = project()
    seat = await take_seat(connect(server), path, yolo=True)
    session = await seat.workspace.session()
    text = f"WORD-OF-THE-PROMPT {bash('printf word-%s of-the-output')}"
    run = await prompt(seat, session, text, "traced")
    every = await collector.spans_until(lambda spans: runs_in(spans) == 1)

    spans = [span for span in every if span["trace"] == TRACE]
    request, accept = (
        "POST /api/workspaces/<str:workspace_id>/sessions/<str:session_id>/prompts",
        "accept",
    )
    chat = next(span["name"] for span in spans if span["name"].startswith("chat "))
    assert tree(spans) == {
        CALLER: [request],
        request: [accept],
        accept: ["queue", "invoke_agent"],
        "invoke_agent": [chat, "execute_tool bash", chat],
    }
    by_name = {span["name"]: span for span in spans}
    assert by_name[request]["kind"] == "SPAN_KIND_SERVER"
    assert by_name[request]["facts"]["http.response.status_code"] == 202
    agent = by_name["invoke_agent"]["facts"]
    assert agent["gen_ai.operation.name"] == "invoke_agent"
    assert agent["gen_ai.conversation.id"] == session
    assert (agent["crush.run.key"], agent["crush.run.outcome"]) == (run["key"], "completed")
    first, second = (span for span in spans if span["name"] == chat)
    assert first["kind"] == "SPAN_KIND_CLIENT"
    assert first["facts"]["gen_ai.operation.name"] == "chat"
    assert first["facts"]["gen_ai.provider.name"]
    assert chat == f"chat {first['facts']['gen_ai.request.model']}"
    assert first["facts"]["gen_ai.response.model"] == "fake-large"
    assert first["facts"]["gen_ai.usage.input_tokens"] > 0
    assert first["facts"]["gen_ai.usage.output_tokens"] > 0
    assert [span["facts"]["gen_ai.response.finish_reasons"] for span in (first, second)] == [
        ["tool_call"],
        ["stop"],
    ]
    tool = by_name["execute_tool bash"]
    assert tool["facts"]["gen_ai.tool.name"] == "bash"
    assert tool["facts"]["gen_ai.tool.call.id"]
    assert first["end"] <= tool["end"] <= second["end"]
    for span in spans:
        assert span["start"] <= span["end"]
        assert span["status"] == 0
        assert span["process"]["service.name"] == "crush-server"
    kinds = {name: span["process"]["crush.process.kind"] for name, span in by_name.items()}
    here, there = ("serve", "serve") if shape is Shape.EMBEDDED else ("web", "worker")
    assert kinds[request] == kinds[accept] == here
    assert kinds["queue"] == kinds["invoke_agent"] == kinds["execute_tool bash"] == there
    shown = json.dumps(every)
    assert not [secret for secret in (*SECRETS, str(path)) if secret in shown]


async def test_an_agents_run_is_below_the_call_that_waits_for_it(
    make_a_server: MakeServer, collector: Collector, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(Shape.SCALED, env=collector.env, workers=2)
    await asyncio.to_thread(server.start)
    seat = await take_seat(connect(server), project(), yolo=True)
    session = await seat.workspace.session()
    await prompt(seat, session, agents("[[n=2]]"), "parent")
    every = await collector.spans_until(lambda spans: runs_in(spans) == 2)
    spans = [span for span in every if span["trace"] == TRACE]
    (call,) = [span for span in spans if span["name"] == "execute_tool agent"]
    above = {span["id"]: span for span in spans}
    child = next(
        span
        for span in spans
        if span["name"] == "invoke_agent" and span["facts"]["crush.run.kind"] == "agent"
    )
    assert above[child["parent"]] == call
    assert call["start"] <= child["start"] <= child["end"] <= call["end"]
    assert above[call["parent"]]["facts"]["crush.run.kind"] == "prompt"


async def test_a_trace_that_its_caller_does_not_record_is_not_sent(
    make_a_server: MakeServer, collector: Collector, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(Shape.EMBEDDED, env=collector.env)
    await asyncio.to_thread(server.start)
    seat = await take_seat(connect(server), project(), yolo=True)
    session = await seat.workspace.session()
    address = f"/api/workspaces/{seat.workspace.id}/sessions/{session}/prompts"
    unrecorded = {"traceparent": f"00-{'1' * 32}-{CALLER}-00"}
    http = seat.workspace.client.http
    for headers in (unrecorded, {"traceparent": "00-no-trace"}):
        body = {"text": "[[n=2]]", "run_id": headers["traceparent"]}
        await http.call("POST", address, body, headers=headers, expect=202)
        await seat.stream.run_complete(session, body["run_id"])
    spans = await collector.spans_until(lambda spans: runs_in(spans) == 1)
    # The second one, whose header names no trace, has one of its own.
    traces = {span["trace"] for span in spans if "accept" in span["name"]}
    assert len(traces) == 1
    assert "1" * 32 not in traces


async def test_a_collector_that_does_not_answer_delays_neither_a_run_nor_the_stop(
    make_a_server: MakeServer, connect: Connect, project: MakeProject
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        env = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "600",
            "OTEL_BSP_SCHEDULE_DELAY": "10",
        }
        server = make_a_server(Shape.EMBEDDED, env=env)
        await asyncio.to_thread(server.start)
        seat = await take_seat(connect(server), project(), yolo=True)
        session = await seat.workspace.session()
        for run_id in ("one", "two", "three"):
            await prompt(seat, session, bash("echo x"), run_id)
        connection, _ = await asyncio.to_thread(silent.accept)  # the server has sent a batch
        with connection:
            await asyncio.to_thread(server.stop)  # raises an error if that takes a minute


async def test_lost_spans_are_one_line_of_the_log(
    make_a_server: MakeServer, connect: Connect, project: MakeProject
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://user:PASS-OF-THE-COLLECTOR@127.0.0.1:{closed.getsockname()[1]}"
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": address,
        "OTEL_EXPORTER_OTLP_TIMEOUT": "0.1",
        "OTEL_BSP_SCHEDULE_DELAY": "10",
    }
    server = make_a_server(Shape.EMBEDDED, env=env)
    await asyncio.to_thread(server.start)
    seat = await take_seat(connect(server), project(), yolo=True)
    session = await seat.workspace.session()
    sentence = "the collector does not take spans"
    async with asyncio.timeout(60):
        while sentence not in server.log_text():
            await prompt(seat, session, "[[n=2]]", os.urandom(8).hex())
    assert server.log_text().count(sentence) == 1
    assert "PASS-OF-THE-COLLECTOR" not in server.log_text()
