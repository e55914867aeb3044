"""A Redis of our own on a free loopback port, with nothing kept on disk."""

import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.processes import Process, ProcessFailed


def redis_binary() -> str | None:
    return shutil.which("redis-server")


class Redis:
    """One Redis for a test session. Pub/sub ignores database numbers: servers also need a prefix."""

    def __init__(self, log_folder: Path) -> None:
        binary = redis_binary()
        if binary is None:
            raise ProcessFailed("no redis-server: install the package redis-server")
        self._folder = Path(tempfile.mkdtemp(prefix="crush-redis-"))
        self._port = free_port()
        self._databases = itertools.count()
        self._process = Process(
            "redis-server",
            [
                *(binary, "--port", str(self._port), "--bind", "127.0.0.1"),
                *("--save", "", "--appendonly", "no", "--databases", "16", "--daemonize", "no"),
            ],
            env={"PATH": os.environ["PATH"]},
            cwd=self._folder,
            log=log_folder / "redis.log",
        )

    def start(self) -> None:
        self._process.start()
        self._process.wait_for_line(r".*Ready to accept connections")

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> None:
        """It can be started again, and remembers nothing."""
        self._process.kill9()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self._process.send(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send(signal.SIGCONT)

    def new_url(self) -> str:
        """A database number for one server; they are used again after 16."""
        return f"redis://127.0.0.1:{self._port}/{next(self._databases) % 16}"

    def stop(self) -> None:
        self._process.kill9()
        shutil.rmtree(self._folder, ignore_errors=True)
