"""Runs the local model in a thread of its own, one request at a time.

Loads, unloads and cancels. llama.cpp releases Python's lock, so the event loop goes
on during a request; only loading holds the lock, once, for less than half a second.
Independent of prompts and tools: it takes llama.cpp's requests.
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
BATCH = 32  # tokens of a prompt between two checks for a cancel
IDLE_SECONDS = 900.0  # after this time the model is unloaded
JOIN_SECONDS = 2.0
LEAVE_SECONDS = 10.0
LONGEST_SOCKET = 80  # characters of its folder: a socket's path may have about 100


@dataclass(slots=True)
class _Job:
    body: Json
    loop: asyncio.AbstractEventLoop
    chunks: asyncio.Queue[Json | ModelError | None] = field(default_factory=asyncio.Queue)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def put(self, item: Json | ModelError | None) -> None:
        try:
            self.loop.call_soon_threadsafe(self.chunks.put_nowait, item)
        except RuntimeError:
            self.cancelled.set()  # the caller's loop is closed


class Engine:
    def __init__(self, weights: Path, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._weights = weights
        self._idle_seconds = idle_seconds
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._all: dict[int, _Job] = {}
        self._server: Any = None  # used by the thread only
        # A daemon thread, so that the exit of the process does not wait for a whole reply.
        self._thread = threading.Thread(target=self._work, name="local-model", daemon=True)
        self._thread.start()
        atexit.register(self._leave)

    @property
    def waiting(self) -> int:
        """Returns the number of running and queued requests."""
        return len(self._all)

    @property
    def is_loaded(self) -> bool:
        return self._server is not None

    async def chunks(self, body: Json) -> AsyncGenerator[Json, None]:
        """Yields the chunks of the response. Closing it cancels. Raises ``ModelError``."""
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
        """Cancels all requests and unloads. Waits at most ``JOIN_SECONDS`` for the thread."""
        for job in list(self._all.values()):
            job.cancelled.set()
            job.chunks.put_nowait(ModelError("The local model was stopped."))
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join, JOIN_SECONDS)
        if not self._thread.is_alive():
            atexit.unregister(self._leave)

    def _leave(self) -> None:
        """Stops the thread at exit: returning from llama.cpp after Python's end hangs both."""
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
        def pass_on(chunk: Json) -> bool:
            """Passes a chunk on; returning true stops llama.cpp."""
            if not job.cancelled.is_set():
                job.put(chunk)
            return job.cancelled.is_set()

        try:
            if self._server is None:
                self._server = load(self._weights)
            self._server.handle_chat_completions(job.body, pass_on)
            job.put(None)
        except Exception as error:  # noqa: BLE001  keeps the thread alive
            job.put(ModelError(f"The local model failed: {str(error)[:300]}"))


def load(weights: Path) -> Any:
    """Loads the model. Blocks.

    llama.cpp always starts its HTTP server: it gets a socket in a private folder.
    """
    import xllamacpp  # noqa: PLC0415  an extra, and 40 MB

    folder = tempfile.gettempdir()
    home = Path(tempfile.mkdtemp(dir=folder if len(folder) < LONGEST_SOCKET else "/tmp"))  # noqa: S108  a socket's path must be short
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.n_ctx = WINDOW
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = BATCH
    # More threads spin while they wait for each other on a busy machine.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = params.fit_params = params.ui = params.endpoint_slots = False
    params.cache_ram_mib = 0
    params.verbosity = -1
    params.hostnames = [str(home / "l.sock")]  # the suffix makes it a socket
    params.api_keys = [secrets.token_urlsafe(32)]
    try:
        return xllamacpp.Server(params)
    finally:
        shutil.rmtree(home, ignore_errors=True)


_engines: list[Engine] = []
_lock = threading.Lock()


def engine(find_weights: Callable[[], Path]) -> Engine:
    """Returns the engine of this process; creates it on first use."""
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
