"""opencode as a subject: installed from npm into a cache of its own, started with an empty home."""

import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.processes import Process, kill_marked
from tests.bench.subjects import Running, answers
from tests.bench.wires.opencode import Opencode

_PACKAGE = "opencode-ai"


class OpencodePeer:
    """`opencode serve`, its model the scripted one."""

    name = "opencode"
    native = False

    def __init__(self, folder: Path, model_url: str) -> None:
        self._folder = folder
        self._model_url = model_url
        self._binary = _installed(_cache())
        self._numbers = itertools.count(1)

    @contextmanager
    def running(self) -> Iterator[Running]:
        process, running = self._process()
        try:
            process.start()
            answers(f"{running.url}/doc")
            yield Running(running.url, [process.pid], running.folder)
        finally:
            self._end(process)

    def wire(self, running: Running) -> Opencode:
        return Opencode(running.url)

    def second_start_seconds(self) -> float:
        process, running = self._process()
        try:
            process.start()
            answers(f"{running.url}/doc")
            process.stop()
            before = time.perf_counter()
            process.start()
            answers(f"{running.url}/doc")
            return time.perf_counter() - before
        finally:
            self._end(process)

    def _process(self) -> tuple[Process, Running]:
        folder = self._folder / f"opencode-{next(self._numbers)}"
        project, home = folder / "project", folder / "home"
        project.mkdir(parents=True)
        home.mkdir()
        (project / "opencode.json").write_bytes(orjson.dumps(_configuration(self._model_url)))
        port = free_port()
        process = Process(
            "opencode",
            [str(self._binary), "serve", "--hostname", "127.0.0.1", "--port", str(port)],
            env={"PATH": os.environ["PATH"], "HOME": str(home)},
            cwd=project,
            log=folder / "opencode.log",
        )
        return process, Running(f"http://127.0.0.1:{port}", [], project)

    def _end(self, process: Process) -> None:
        process.kill9()
        kill_marked(f"HOME={self._folder}/")  # what it started for itself


def _configuration(model_url: str) -> dict[str, object]:
    limit = {"context": 200_000, "output": 4096}
    return {
        "provider": {
            "fake": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Fake",
                "options": {"baseURL": model_url, "apiKey": "sk-fake"},
                "models": {name: {"name": name, "limit": limit} for name in ("large", "small")},
            }
        },
        "model": "fake/large",
        "small_model": "fake/small",
        "autoupdate": False,
        "share": "disabled",
    }


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "crush-bench" / "opencode"


def _installed(folder: Path) -> Path:
    binary = folder / "node_modules" / ".bin" / "opencode"
    if not binary.exists():
        if shutil.which("npm") is None:
            raise SystemExit("--peer opencode needs npm: install the package npm")
        print(f"installing {_PACKAGE} with npm")
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", _PACKAGE]
        subprocess.run([*command, "--prefix", str(folder)], check=True, stdout=subprocess.DEVNULL)
    return binary
