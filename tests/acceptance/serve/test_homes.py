"""With two workers, a workspace lives in one of them: its MCP servers and shells have one state."""

import asyncio
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.acceptance.calling import call, eventually, run_call, until
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.project import make_project
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.mcp.servers import on_stdio, states
from tests.acceptance.serve.starting import Connect, MakeServer

pytestmark = pytest.mark.timeout(300)
FOLDERS = ("shop", "shed")
SESSIONS = 8  # whose runs both workers could claim
COUNTED = 1 + SESSIONS + 1


@pytest.fixture
def server(make_a_server: MakeServer, tmp_path: Path, model: ScriptedModel) -> Server:
    """Two workers that serve the same root."""
    root = tmp_path / "code"
    for name in FOLDERS:
        make_project(root / name, model.base_url, mcp={"s": on_stdio("--counting")})
    server = make_a_server(Shape.SCALED, env={"CRUSH_ROOTS": f"code={root}"}, workers=2)
    done = command(server.env, "root", "init", f"code={root}")
    assert done.code == 0, done.err
    server.start()
    return server


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
async def test_a_workspace_has_one_state_and_moves_when_its_worker_leaves(
    server: Server, connect: Connect, tmp_path: Path, how: signal.Signals
) -> None:
    client = connect(server)
    shop, shed = [await at_work(client, tmp_path / "code" / name) for name in FOLDERS]
    process = await counted_by(shop, first=1)
    other = await counted_by(shed, first=1)
    workers = {each.pid: each for each in server.processes("worker")}
    home, others_home = worker_of(process, workers), worker_of(other, workers)
    assert home != others_home
    assert home in await ancestors_of_a_shell(shop)
    assert others_home in await ancestors_of_a_shell(shed)

    worker = workers.pop(home)
    worker.send(how)
    if how is not signal.SIGSTOP:
        await asyncio.to_thread(worker.wait)

    after = await counted_by(shop, first=1)
    assert after != process
    assert worker_of(after, workers) == others_home
    assert await counted_by(shed, first=1 + COUNTED) == other
    assert others_home in await ancestors_of_a_shell(shop)
    if how is signal.SIGSTOP:
        worker.send(signal.SIGCONT)
    await eventually(lambda: not Path(f"/proc/{process}").exists(), "the end of the old server")
    assert await counted_by(shop, first=1 + COUNTED) == after


async def at_work(client: Client, folder: Path) -> Seat:
    """A seat in the folder, whose MCP server is connected."""
    seat = await take_seat(client, folder, yolo=True)
    await until(partial(is_connected, seat), "the MCP server", 120)
    return seat


async def is_connected(seat: Seat) -> bool:
    return (await states(seat)).get("s", {}).get("state") == "connected"


async def counted_by(seat: Seat, *, first: int) -> int:
    """The one process that has counted for runs of several sessions and a client's request."""
    found = [await until(partial(count, seat), "a count", 120)]
    # Where its server runs already, no run has to wait for it.
    found += await asyncio.gather(*(count(seat) for _ in range(SESSIONS)))
    body = {"name": "s", "uri": "note://count"}
    (content,) = await seat.workspace.call("POST", "/mcp/read-resource", body)
    found.append(pair(content["text"]))
    assert None not in found, "a run was in another worker"
    ((process,), numbers) = {each for each, _ in found}, sorted(number for _, number in found)
    assert numbers == list(range(first, first + COUNTED))
    return process


async def count(seat: Seat) -> tuple[int, int] | None:
    """The counting process and its number, in a new session; ``None`` while it starts."""
    session = await seat.workspace.session()
    result = await run_call(seat, session, call("mcp_s_count"))
    return None if result["is_error"] else pair(result["content"])


def pair(text: str) -> tuple[int, int]:
    process, number = text.split()
    return int(process), int(number)


async def ancestors_of_a_shell(seat: Seat) -> list[int]:
    """Of a command of the user."""
    parent = "p=$(sed 's/.*) //' /proc/$p/stat | cut -d' ' -f2)"
    shown = await seat.workspace.shell(
        await seat.workspace.session(), f'p=$$; while [ "$p" -gt 1 ]; do echo $p; {parent}; done'
    )
    return [int(line) for line in shown["output"].split()]


def worker_of(process: int, workers: dict[int, object]) -> int:
    """The worker that has started this process, perhaps through others."""
    while process not in workers:
        stat = Path(f"/proc/{process}/stat").read_text()
        process = int(stat.rpartition(")")[2].split()[1])
        assert process > 1
    return process
