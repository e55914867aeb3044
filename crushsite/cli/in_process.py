"""A session without a server: this process does what a server would do.

The caller of one that is alone holds the data folder's lock meanwhile. Where several processes
share the data, the workers elsewhere do the work. A second prompt on the folder finds this
process by the server file and uses its socket file like any server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import orjson
from django.conf import settings

from agents.api.prompts import queue_limits
from agents.config.cache import configs
from agents.config.edits.trust_requests import keep_trust_request
from agents.jobs.host import job_host
from agents.runs import accept, cancel, teardown
from agents.runs.answer import Answer, answer_questions, dismiss_questions
from agents.runs.answer import answer as answer_request
from crushsite.asgi.routing import Router, guarded
from crushsite.cli.session import FeedBroken, Item, Pending, PromptRefused, jobs_held_by
from crushsite.data_folder import remove_server_file, write_server_file
from crushsite.database import explained_start
from crushsite.process import ProcessShape, ServerProcess, set_process
from permissions.pending import read_pending
from workspaces.actions.sessions import create_session, rename_session
from workspaces.api.bodies import checked
from workspaces.api.opening import OpeningForm, open_for_client
from workspaces.api.writing import write_in_open
from workspaces.delivery.attachments import StreamAttachment
from workspaces.delivery.readers import Wire
from workspaces.delivery.subscribe import stream_native
from workspaces.log.errors import Refusal
from workspaces.log.ids import new_id
from workspaces.log.reader import read
from workspaces.models import ClientClaim
from workspaces.queries.sessions import require_session

if TYPE_CHECKING:
    from crushsite.server.asgi_server import AsgiServer

IDLE_LOOK_SECONDS = 0.05


class InProcess:
    def __init__(self, folder: Path, path: str, *, works: bool, is_alone: bool) -> None:
        self._path = path
        self._client_id = new_id()
        self._workspace_id = ""
        # Serving means to renew claims and drop lapsed ones; nothing listens.
        self._process = ServerProcess(ProcessShape(works=works, serves=True, is_alone=is_alone))
        # One that only stores a prompt is gone before another could use it.
        self._private = PrivateServer(self._process, folder) if works and is_alone else None
        self._attachment: StreamAttachment | None = None
        self._is_started = False

    async def open(self) -> None:
        if not self._is_started:
            self._is_started = True
            set_process(self._process)
            with explained_start():
                await self._process.start()
            if self._private is not None:
                self._private.start()
        with _shown_refusals():
            fields = checked(OpeningForm, {"path": self._path, "client_id": self._client_id})
            self._workspace_id = await open_for_client(fields)
            # The watch opens the request too, but maybe after the prompt has been sent.
            config = await configs().newest_config_of(self._workspace_id)
            await keep_trust_request(self._workspace_id, config)

    async def ensure_session(self, session_id: str) -> str:
        with _shown_refusals():
            if session_id:
                await read(require_session, self._workspace_id, session_id)
                return session_id
            session = await write_in_open(
                self._workspace_id,
                lambda tx: create_session(tx, self._workspace_id, title=""),
            )
        return str(session["id"])

    async def rename(self, session_id: str, *, title: str) -> None:
        with _shown_refusals():
            await write_in_open(
                self._workspace_id,
                lambda tx: rename_session(tx, self._workspace_id, session_id, title=title),
            )

    async def feed(self, after: int | None) -> AsyncIterator[Item]:
        with _shown_refusals():
            if self._attachment is None:
                self._attachment = await self._process.attachments.attach(
                    self._workspace_id, self._client_id, close=lambda: None
                )
            feed = stream_native(self._process.hub, self._workspace_id, after=after, wire=Wire.WS)
            async with aclosing(cast("Any", feed)) as chunks:
                async for chunk in chunks:
                    for item in orjson.loads(chunk):
                        yield item
        raise FeedBroken("the stream ended")

    async def prompt(self, session_id: str, text: str, *, run_id: str) -> None:
        with _shown_refusals():
            prompt = accept.Prompt(session_id, text, run_id)
            await accept.accept(self._workspace_id, prompt, limits=queue_limits())

    async def answer(self, request_id: str, answer: Answer, *, folder: str = "") -> bool:
        with _shown_refusals():
            return await answer_request(
                self._workspace_id, request_id=request_id, answer=answer, folder=folder
            )

    async def answer_batch(
        self, batch_id: str, responses: Sequence[Mapping[str, Any]] | None
    ) -> bool:
        with _shown_refusals():
            if responses is None:
                return await dismiss_questions(self._workspace_id, batch_id)
            return await answer_questions(self._workspace_id, batch_id, responses)

    async def cancel(self, session_id: str) -> None:
        with _shown_refusals():
            await cancel.cancel(self._workspace_id, session_id)

    async def pending(self) -> Pending:
        found = await read(read_pending, self._workspace_id)
        return Pending(found["permissions"], found["questions"])

    async def jobs_that_end(self) -> list[str]:
        return await asyncio.to_thread(jobs_held_by, self._workspace_id, self._client_id)

    async def wait_for_others(self, note: Callable[[str], None]) -> None:
        """Runs of other prompts are worked on here, and their clients are connected here."""
        is_noted = False
        while self._process.pool.running or await read(_others_stream, self._client_id):
            if not is_noted:
                is_noted = True
                note(
                    "other prompts are being worked on here; Ctrl-C leaves them to the next start\n"
                )
            await asyncio.sleep(IDLE_LOOK_SECONDS)

    async def close(self) -> None:
        if not self._is_started:
            return
        try:
            if self._workspace_id:
                with suppress(Refusal):
                    await teardown.release(self._workspace_id, self._client_id)
        finally:
            self._process.is_stopping = True
            if self._private is not None:
                await self._private.stop()
            await self._process.attachments.stop()
            await self._process.stop()
            set_process(None)


def _others_stream(client_id: str) -> bool:
    claims = ClientClaim.objects.filter(is_streaming=True).exclude(client_id=client_id)
    return claims.exists()


@contextmanager
def _shown_refusals() -> Iterator[None]:
    """Shows a refusal as one of the terminal's own."""
    try:
        yield
    except Refusal as refusal:
        raise PromptRefused(refusal.sentence) from refusal


logger = logging.getLogger(__name__)

SOCKET = "prompt.sock"
LONGEST_PATH = 100  # what the kernel takes for a socket's address, and a few bytes less


class PrivateServer:
    """A socket file for other commands of this user, from ``start`` to ``stop``, each called once."""

    def __init__(self, process: ServerProcess, folder: Path) -> None:
        self._folder = folder
        self._router = Router(process)
        self._server: AsgiServer | None = None
        self._other_folder = ""  # made for a socket where the data folder's path is too long
        self._starting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Returns at once: the first prompt does not wait for what only a second one needs."""
        self._starting = asyncio.create_task(self._start())

    async def stop(self) -> None:
        """Before the process stops."""
        if self._starting is not None:
            await asyncio.wait([self._starting])
        remove_server_file(self._folder)
        if self._server is not None:
            await self._server.stop()
        await job_host().end_users_commands()  # requests wait for them
        await self._router.api.finish()
        if self._other_folder:
            shutil.rmtree(self._other_folder, ignore_errors=True)

    async def _start(self) -> None:
        try:
            self._server = await asyncio.to_thread(self._make)
            (endpoint,) = await self._server.start()
            write_server_file(self._folder, str(endpoint), is_temporary=True)
        except Exception:
            logger.exception("a second prompt must wait for this one: nothing listens for it")

    def _make(self) -> AsgiServer:
        from crushsite.server.asgi_server import AsgiServer  # noqa: PLC0415  only a second prompt needs it

        return AsgiServer(
            guarded(self._router, unix=True),
            endpoints=[f"unix://{self._socket()}"],
            body_limit=settings.CRUSH_MAX_BODY_BYTES,
        )

    def _socket(self) -> Path:
        path = self._folder.resolve() / SOCKET
        if len(os.fsencode(path)) <= LONGEST_PATH:
            return path
        self._other_folder = tempfile.mkdtemp(prefix="crush-")  # for this user alone
        return Path(self._other_folder) / SOCKET
