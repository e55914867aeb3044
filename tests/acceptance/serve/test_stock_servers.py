"""Django's `runserver`, Uvicorn and Daphne's own command serve the same guarded application."""

import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.acceptance.conversation import SHORT, Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.environment import ROOT, server_environment
from tests.acceptance.harness.native import NativeSocket, NativeSse
from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.processes import Process
from tests.acceptance.serve.starting import EXIT_SECONDS, MakeProject

APPLICATION = "crushsite.asgi:application"
COMMANDS: dict[str, tuple[list[str], str]] = {
    "runserver": (["manage.py", "runserver", "{port}", "--noreload"], "Serving"),
    "uvicorn": (
        ["-m", "uvicorn", "--port", "{port}", "--timeout-graceful-shutdown", "2", APPLICATION],
        ".*Uvicorn running",
    ),
    "daphne": (["-m", "daphne", "-p", "{port}", APPLICATION], ".*Listening on TCP"),
}


class Stock:
    """One of them, started."""

    def __init__(self, name: str, folder: Path, **env: str) -> None:
        self.name, self.port, self.data = name, free_port(), folder / "data"
        self.url = f"http://127.0.0.1:{self.port}"
        arguments, self._line = COMMANDS[name]
        self.process = Process(
            name,
            [sys.executable, *(a.format(port=self.port) for a in arguments)],
            env=server_environment(folder / "home", self.data, {"CRUSH_TRUST": "all", **env}),
            cwd=ROOT,
            log=folder / f"{name}.log",
        )

    def start(self) -> "Stock":
        self.process.start()
        self.process.wait_for_line(self._line, 60)
        return self


@pytest.fixture
def make_stock(tmp_path: Path) -> Iterator[Callable[..., Stock]]:
    made: list[Stock] = []

    def make(name: str, **env: str) -> Stock:
        made.append(Stock(name, tmp_path, **env))
        return made[-1].start()

    yield make
    for stock in made:
        stock.process.kill9()


async def status_of(url: str, **headers: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status


@pytest.mark.parametrize("name", COMMANDS)
async def test_it_serves_the_guarded_application_with_streams_and_a_worker(
    make_stock: Callable[..., Stock], name: str, project: MakeProject
) -> None:
    stock = make_stock(name)
    health = f"{stock.url}/v1/health"
    assert await status_of(health) == 200
    assert await status_of(health, Host="evil.example") == 403
    assert await status_of(health, Origin="https://evil.example") == 403
    assert await status_of(health, **{"Sec-Fetch-Site": "cross-site"}) == 403
    assert await status_of(f"{stock.url}/admin/", Host="evil.example") == 403

    async with Client(stock.url) as client:
        seat: Seat = await take_seat(client, project())
        events = await NativeSse(client.http, seat.workspace.id).open()
        socket = await NativeSocket(client.http, seat.workspace.id).open()
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await NativeSocket(client.http, seat.workspace.id).open(origin="https://evil.example")
        session = await seat.workspace.session()
        await seat.workspace.prompt(session, SHORT, "v1")
        complete = await seat.stream.run_complete(session, "v1")
        assert "error" not in complete
        prompt = {"id": 1, "command": "prompt", "session_id": session, "text": SHORT}
        await socket.send({**prompt, "run_id": "native"})
        for reader in (events, socket):
            await reader.wait_for(
                lambda item: (
                    item.type == "run.finished"
                    and item.body["data"]["run"].get("run_id") == "native"
                )
            )
            await reader.close()
        await seat.stream.close()


@pytest.mark.parametrize("name", COMMANDS)
async def test_it_serves_the_api_and_the_admin_with_its_static_files(
    make_stock: Callable[..., Stock], name: str
) -> None:
    stock = make_stock(name)
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{stock.url}/v1/version") as answer:
            assert answer.status == 200
            assert "version" in await answer.json()
        async with session.get(f"{stock.url}/v1/nowhere") as answer:
            assert (answer.status, await answer.json()) == (404, {"message": "not found"})
        async with session.get(f"{stock.url}/admin/") as answer:
            assert answer.url.path == "/admin/login/"
            assert answer.headers["Content-Security-Policy"]
            page = await answer.text()
        assert "Crush server" in page
        sheets = re.findall(r'<link rel="stylesheet" href="([^"]+)"', page)
        assert sheets
        for sheet in sheets:
            async with session.get(f"{stock.url}{sheet}") as answer:
                assert (answer.status, answer.content_type) == (200, "text/css"), sheet
                assert await answer.read()


@pytest.mark.parametrize("name", COMMANDS)
async def test_it_ends_in_order_and_starts_again_on_the_same_data(
    make_stock: Callable[..., Stock], name: str
) -> None:
    stock = make_stock(name)
    assert await status_of(f"{stock.url}/v1/health") == 200
    assert (stock.data / "server.json").exists()  # commands find it
    stock.process.send(signal.SIGTERM)
    stock.process.wait(EXIT_SECONDS)
    assert not (stock.data / "server.json").exists()
    assert "Traceback" not in stock.process.log_text()
    again = make_stock(name)
    assert await status_of(f"{again.url}/v1/health") == 200


@pytest.mark.parametrize("name", ["uvicorn", "daphne"])
async def test_a_second_server_on_the_same_data_prints_the_reason(
    make_stock: Callable[..., Stock], tmp_path: Path, name: str
) -> None:
    first = make_stock("uvicorn")
    second = Stock(name, tmp_path / "second", CRUSH_DATA_DIR=str(first.data))
    second.process.start()
    try:
        if name == "uvicorn":
            assert second.process.wait(EXIT_SECONDS) != 0
            assert "already runs" in second.process.log_text()
        else:
            second.process.wait_for_line(".*Listening on TCP", 60)
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{second.url}/v1/health") as answer,
            ):
                assert answer.status == 503
                assert "already runs" in (await answer.json())["message"]
    finally:
        second.process.kill9()


@pytest.mark.parametrize("address", ["0.0.0.0:8000", "192.168.1.1:80", "nonsense", "8000x"])
def test_runserver_listens_on_loopback_alone(
    make_stock: Callable[..., Stock], tmp_path: Path, address: str
) -> None:
    process = Process(
        "runserver",
        [sys.executable, "manage.py", "runserver", address],
        env=server_environment(tmp_path / "home", tmp_path / "data", {}),
        cwd=ROOT,
        log=tmp_path / "runserver.log",
    )
    process.start()
    assert process.wait(EXIT_SECONDS) != 0
    assert re.search(r"loopback|PORT", process.log_text())
