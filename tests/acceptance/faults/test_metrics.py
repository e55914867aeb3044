"""The figures of each process, as Prometheus reads them."""

import asyncio
from pathlib import Path

import pytest

from tests.acceptance.calling import bash
from tests.acceptance.conversation import take_seat
from tests.acceptance.faults.conftest import NewDetour
from tests.acceptance.harness.http import Http
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Shape
from tests.acceptance.serve.starting import Connect, MakeProject, MakeServer
from tests.doubles.tcp_proxy import Mode

TOKEN = "a-token-of-the-operator"
# As a proxy on this machine sends it: then the sender is not the owner.
ELSEWHERE = {"X-Forwarded-For": "192.0.2.7"}
WITH_TOKEN = {**ELSEWHERE, "Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def metrics_env(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "metrics-token"
    file.write_text(f"{TOKEN}\n")
    return {"CRUSH_METRICS_TOKEN_FILE": str(file)}


async def figures_of(url: str) -> dict[str, float]:
    async with Http(url) as http:
        text = await http.call("GET", "/metrics", headers=WITH_TOKEN)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def test_each_process_shows_its_own_figures(
    make_a_server: MakeServer,
    shape: Shape,
    metrics_env: dict[str, str],
    connect: Connect,
    project: MakeProject,
    model: ScriptedModel,
) -> None:
    server = make_a_server(shape, env=metrics_env, monitored=True)
    await asyncio.to_thread(server.start)
    (worker_url,) = server.monitor_urls
    seat = await take_seat(connect(server), project(), yolo=True)
    session, gate = await seat.workspace.session(), model.new_gate()
    await seat.workspace.prompt(session, bash("sleep 0.2"), "tool")
    await seat.stream.run_complete(session, "tool")
    await seat.workspace.prompt(session, f"[[n=10 hold=5 gate={gate}]]", "held")
    await seat.stream.words(session, 3)
    web, worker = await figures_of(server.url), await figures_of(worker_url)
    assert web["crush_accept_seconds_count"] == 2
    assert web['crush_subscribers{wire="v1"}'] == 1
    assert web["crush_log_lag_seconds_count"] > 5
    assert web['crush_log_lag_seconds_bucket{le="5"}'] == web["crush_log_lag_seconds_count"]
    assert worker["crush_queue_wait_seconds_count"] == 2
    assert worker["crush_step_seconds_count"] >= 4
    assert worker["crush_running_runs"] == 1
    assert worker['crush_tool_seconds_count{tool="bash"}'] == 1
    assert 0.2 <= worker['crush_tool_seconds_sum{tool="bash"}'] < 60
    of_model = [name for name in worker if name.startswith("crush_model_seconds_count")]
    assert [worker[name] for name in of_model] == [2]  # the held one has not ended
    tokens = [name for name in worker if name.startswith("crush_tokens_total")]
    assert sum(worker[name] for name in tokens if 'kind="output"' in name) > 0
    for figures in (web, worker):
        assert figures['crush_runs{state="running"}'] == 1
        assert figures["crush_database_outage_seconds"] == 0
    if shape is Shape.SCALED:
        assert (web["crush_running_runs"], web["crush_step_seconds_count"]) == (0, 0)
        assert worker["crush_accept_seconds_count"] == 0
    model.open_gate(gate)
    await seat.stream.run_complete(session, "held")
    assert (await figures_of(worker_url))["crush_running_runs"] == 0


async def test_figures_are_not_public(
    make_a_server: MakeServer, shape: Shape, metrics_env: dict[str, str]
) -> None:
    server = make_a_server(shape, env=metrics_env, monitored=True)
    await asyncio.to_thread(server.start)
    for url in {server.url, *server.monitor_urls}:
        async with Http(url) as http:
            await http.call("GET", "/metrics")  # a process of the owner
            await http.call("GET", "/metrics", headers=WITH_TOKEN)
            await http.call("GET", "/metrics", headers=ELSEWHERE, expect=401)
            wrong = {**ELSEWHERE, "Authorization": f"Bearer {TOKEN}x"}
            await http.call("GET", "/metrics", headers=wrong, expect=401)
    async with Http(server.url) as http:  # and the token opens nothing else
        await http.call("GET", "/v1/workspaces", headers=WITH_TOKEN, expect=401)


async def test_figures_can_be_read_while_the_database_is_away(
    make_a_server: MakeServer, detour: NewDetour, metrics_env: dict[str, str]
) -> None:
    way = detour("DATABASE_URL", "web", "worker")
    server = make_a_server(Shape.SCALED, env=metrics_env, reroute=way, monitored=True)
    await asyncio.to_thread(server.start)
    way.proxy.set_mode(Mode.REFUSE)
    for url in (server.url, *server.monitor_urls):
        async with asyncio.timeout(60):
            while (figures := await figures_of(url))["crush_database_outage_seconds"] == 0:
                await asyncio.sleep(0.1)
        assert "crush_accept_seconds_count" in figures
        assert not any(name.startswith("crush_runs{") for name in figures)
    way.proxy.set_mode(Mode.PASS)
