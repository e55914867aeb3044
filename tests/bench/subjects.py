"""The servers that are measured: this project's in either shape, each started anew for a scenario."""

import itertools
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.acceptance.harness.project import make_project
from tests.acceptance.harness.services import Services
from tests.acceptance.harness.shapes import Shape, make_server
from tests.bench.wires.contract import Wire
from tests.bench.wires.crush_native import CrushNative
from tests.bench.wires.crush_v1 import CrushV1


@dataclass(frozen=True)
class Running:
    """A server that listens, and a folder for it to work in."""

    url: str
    pids: list[int]
    folder: Path


class Subject(Protocol):
    """A kind of server. `native` says whether it has the native interface too."""

    name: str
    native: bool

    def running(self) -> AbstractContextManager[Running]:
        """A fresh server with an empty data folder."""

    def wire(self, running: Running) -> Wire: ...

    def second_start_seconds(self) -> float:
        """From the start of the process to its first answer, on a data folder that exists."""


class Crush:
    """This project's server."""

    native = True

    def __init__(
        self, shape: Shape, folder: Path, model_url: str, services: Services | None
    ) -> None:
        self.name = str(shape)
        self._shape = shape
        self._folder = folder
        self._model_url = model_url
        self._services = services
        self._numbers = itertools.count(1)

    @contextmanager
    def running(self) -> Iterator[Running]:
        folder = self._folder / f"{self._shape}-{next(self._numbers)}"
        server = make_server(self._shape, folder, services=self._services)
        project = make_project(folder / "project", self._model_url)
        try:
            server.start()
            yield Running(server.url, server.pids(), project)
        finally:
            server.close()

    def wire(self, running: Running) -> CrushV1:
        return CrushV1(running.url)

    def native_wire(self, running: Running) -> CrushNative:
        return CrushNative(running.url)

    def second_start_seconds(self) -> float:
        folder = self._folder / f"{self._shape}-{next(self._numbers)}"
        server = make_server(self._shape, folder, services=self._services)
        try:
            server.start()
            server.stop()
            before = time.perf_counter()
            server.start()
            answers(f"{server.url}/v1/health")
            return time.perf_counter() - before
        finally:
            server.close()


def answers(url: str, timeout: float = 60) -> None:
    """Return when the address answers with a success."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)
