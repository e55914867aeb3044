"""The model itself, in a thread of its own: one request after the other.

Owns loading, unloading and cancelling. llama.cpp runs without Python's lock, so
the event loop goes on while it thinks; only loading holds it, once, for less than
half a second. Knows nothing of prompts or tools: it takes llama.cpp's requests.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import queue
import secrets
import shutil
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.llm.errors import ModelError

Json = dict[str, Any]

WINDOW = 8_192  # tokens
BATCH = 32  # tokens of a prompt between two looks at whether it was cancelled
IDLE_SECONDS = 900.0  # then its memory is given back
JOIN_SECONDS = 2.0
LEAVE_SECONDS = 10.0
LONGEST_SOCKET = 80  # characters of its folder: a socket's path has room for about 100


@dataclass(slots=True)
class _Job:
    body: Json
    loop: asyncio.AbstractEventLoop
    chunks: asyncio.Queue[Json | ModelError | None] = field(default_factory=asyncio.Queue)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def tell(self, item: Json | ModelError | None) -> None:
        try:
            self.loop.call_soon_threadsafe(self.chunks.put_nowait, item)
        except RuntimeError:
            self.cancelled.set()  # whoever asked has gone with its loop


class Engine:
    def __init__(self, weights: Path, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._weights = weights
        self._idle_seconds = idle_seconds
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._all: dict[int, _Job] = {}
        self._server: Any = None  # only the thread touches it
        # A daemon: no exit of the process waits for a whole reply.
        self._thread = threading.Thread(target=self._work, name="local-model", daemon=True)
        self._thread.start()
        atexit.register(self._leave)

    @property
    def waiting(self) -> int:
        """How many requests are under way or wait for their turn."""
        return len(self._all)

    @property
    def is_loaded(self) -> bool:
        return self._server is not None

    async def chunks(self, body: Json) -> AsyncGenerator[Json, None]:
        """The answer's chunks. Closing it cancels. Raises ``ModelError``."""
        job = _Job(body, asyncio.get_running_loop())
        self._all[id(job)] = job
        self._jobs.put(job)
        try:
            while (item := await job.chunks.get()) is not None:
                if isinstance(item, ModelError):
                    raise item
                yield item
        finally:
            job.cancelled.set()
            self._all.pop(id(job), None)

    async def close(self) -> None:
        """Cancels everything and unloads. Waits for the thread, but not for long."""
        for job in list(self._all.values()):
            job.cancelled.set()
            job.chunks.put_nowait(ModelError("The local model was stopped."))
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join, JOIN_SECONDS)
        if not self._thread.is_alive():
            atexit.unregister(self._leave)

    def _leave(self) -> None:
        """Python must not end below a thread that comes back from llama.cpp: both would hang."""
        for job in list(self._all.values()):
            job.cancelled.set()
        self._jobs.put(None)
        self._thread.join(LEAVE_SECONDS)
        if self._thread.is_alive():
            logging.shutdown()
            os._exit(1)

    # -- in the thread

    def _work(self) -> None:
        while True:
            try:
                wait = self._idle_seconds if self._server is not None else None
                job = self._jobs.get(timeout=wait)
            except queue.Empty:
                self._server = None
                continue
            if job is None:
                self._server = None
                return
            if not job.cancelled.is_set():
                self._answer(job)

    def _answer(self, job: _Job) -> None:
        def hear(chunk: Json) -> bool:
            """llama.cpp stops where this is true."""
            if not job.cancelled.is_set():
                job.tell(chunk)
            return job.cancelled.is_set()

        try:
            if self._server is None:
                self._server = load(self._weights)
            self._server.handle_chat_completions(job.body, hear)
            job.tell(None)
        except Exception as error:  # noqa: BLE001  the one place that keeps the thread alive
            job.tell(ModelError(f"The local model failed: {str(error)[:300]}"))


def load(weights: Path) -> Any:
    """Blocks. llama.cpp's own HTTP server comes with it: it is given a socket nobody can reach."""
    import xllamacpp  # type: ignore[import-untyped]  # noqa: PLC0415  an extra, and 40 MB

    folder = tempfile.gettempdir()
    home = Path(tempfile.mkdtemp(dir=folder if len(folder) < LONGEST_SOCKET else "/tmp"))  # noqa: S108  a socket's path must be short
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.n_ctx = WINDOW
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = BATCH
    # More threads wait for each other in a busy circle wherever the machine has other work.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = params.fit_params = params.ui = params.endpoint_slots = False
    params.cache_ram_mib = 0
    params.verbosity = -1
    params.hostnames = [str(home / "l.sock")]  # the ending makes it a socket
    params.api_keys = [secrets.token_urlsafe(32)]
    try:
        return xllamacpp.Server(params)
    finally:
        shutil.rmtree(home, ignore_errors=True)


_engines: list[Engine] = []
_lock = threading.Lock()


def engine(find_weights: Callable[[], Path]) -> Engine:
    """The process has one, made on first use."""
    with _lock:
        if not _engines:
            _engines.append(Engine(find_weights()))
        return _engines[0]


async def close_engine() -> None:
    with _lock:
        gone = list(_engines)
        _engines.clear()
    for one in gone:
        await one.close()
