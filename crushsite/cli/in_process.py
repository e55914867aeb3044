"""A session in this process, which is the server of its data folder meanwhile.

The caller holds the data folder's lock, unless several processes share the data: then workers
elsewhere perform the runs. A second command on the folder finds this process by the server file and
connects to its socket file as to any server.

Loading this takes longer than everything that a command needs for a running server.
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
from django.db import connection

from agents.api.native_prompts import StrategySerializer, check_options, with_strategy
from agents.api.prompts import queue_limits
from agents.config.cache import configs
from agents.config.edits.trust_requests import keep_trust_request
from agents.jobs.host import job_host
from agents.runs import accept, cancel, teardown
from agents.runs.answer import answer as answer_request
from agents.runs.answer import answer_questions, dismiss_questions
from agents.states import Answer
from crushsite.asgi.routing import Router, guarded
from crushsite.cli.session import (
    Choices,
    FeedBroken,
    Item,
    Pending,
    PromptRefused,
    in_other_folder,
    jobs_held_by,
)
from crushsite.cli.stored_people import refuse_tools
from crushsite.cli.stored_sessions import NotFound, find_stored
from crushsite.process import ServerProcess, set_process
from crushsite.registration import ProcessShape
from crushsite.server_client import RunningServer
from crushsite.storage import explained_start, remove_server_file, write_server_file
from permissions.actions.requests import AnswerOptions
from permissions.queries import read_pending
from workspaces.access import OWNER, Actor, Caller
from workspaces.actions.sessions import create_session, rename_session
from workspaces.api.bodies import checked
from workspaces.api.workspaces import OpeningForm, open_for_client, write_in_open
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

logger = logging.getLogger(__name__)

IDLE_POLL_SECONDS = 0.05
SOCKET = "prompt.sock"
LONGEST_PATH = 100  # a few bytes below the kernel's limit for a socket's address


class InProcess:
    def __init__(self, folder: Path, path: str, *, works: bool, is_alone: bool) -> None:
        self._path = path
        self._client_id = new_id()
        self._workspace_id = ""
        # ``serves`` only renews claims and drops expired ones; it opens no socket.
        self._process = ServerProcess(
            ProcessShape(works=works, serves=True, is_alone=is_alone, is_temporary=True)
        )
        # A process that only stores a prompt ends before another could connect to it.
        self._private = PrivateServer(self._process, folder) if works and is_alone else None
        self._attachment: StreamAttachment | None = None
        self._is_started = False

    async def open(self) -> None:
        if not self._is_started:
            await asyncio.to_thread(refuse_tools, "act without a server")
            self._is_started = True
            set_process(self._process)
            with explained_start():
                await self._process.start()
            if self._private is not None:
                self._private.start()
        with _shown_refusals():
            fields = checked(OpeningForm, {"path": self._path, "client_id": self._client_id})
            self._workspace_id = await open_for_client(fields, Caller(OWNER))
            # The watch opens the trust request too, but maybe after the prompt was sent.
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

    @property
    def _actor(self) -> Actor:
        return Caller(self._process.owner).actor(self._client_id, via="command")

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

    async def session_named(self, wanted: str) -> str:
        return await asyncio.to_thread(_stored_session_id, wanted, self._path)

    async def prompt(
        self, session_id: str, text: str, *, run_id: str, choices: Choices | None = None
    ) -> None:
        with _shown_refusals():
            prompt = accept.Prompt(session_id, text, run_id)
            if choices:
                prompt = with_strategy(prompt, checked(StrategySerializer, dict(choices)))
                caller = Caller(self._process.owner)
                await check_options(caller, self._workspace_id, prompt.options)
            await accept.accept(
                self._workspace_id, prompt, limits=queue_limits(), actor=self._actor
            )

    async def answer(self, request_id: str, answer: Answer, *, folder: str = "") -> bool:
        with _shown_refusals():
            resolution = await answer_request(
                self._workspace_id,
                request_id=request_id,
                answer=answer,
                options=AnswerOptions(folder=folder),
                actor=self._actor,
            )
            return resolution.is_first

    async def answer_batch(
        self, batch_id: str, responses: Sequence[Mapping[str, Any]] | None
    ) -> bool:
        with _shown_refusals():
            resolution = (
                await dismiss_questions(self._workspace_id, batch_id, actor=self._actor)
                if responses is None
                else await answer_questions(
                    self._workspace_id, batch_id, responses, actor=self._actor
                )
            )
            return resolution.is_first

    async def cancel(self, session_id: str) -> None:
        with _shown_refusals():
            await cancel.cancel(self._workspace_id, session_id, actor=self._actor)

    async def pending(self) -> Pending:
        found = await read(read_pending, self._workspace_id)
        return Pending(found["permissions"], found["questions"])

    async def jobs_that_end(self) -> list[str]:
        return await asyncio.to_thread(jobs_held_by, self._workspace_id, self._client_id)

    async def wait_for_others(self, note: Callable[[str], None]) -> None:
        """Waits for other prompts: this process performs their runs and serves their clients."""
        is_noted = False
        while self._process.pool.running or await read(_others_stream, self._client_id):
            if not is_noted:
                is_noted = True
                note(
                    "this process still runs other prompts; Ctrl-C leaves them to the next start\n"
                )
            await asyncio.sleep(IDLE_POLL_SECONDS)

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


def _stored_session_id(wanted: str, path: str) -> str:
    """Returns the whole id of a session in the folder. Raises ``PromptRefused``."""
    try:
        session = find_stored(wanted)
    except NotFound as error:
        raise PromptRefused(str(error)) from error
    finally:
        connection.close()
    if session.path != path:
        raise PromptRefused(in_other_folder(session.id, session.path))
    return session.id


def _others_stream(client_id: str) -> bool:
    claims = ClientClaim.objects.filter(is_streaming=True).exclude(client_id=client_id)
    return claims.exists()


@contextmanager
def _shown_refusals() -> Iterator[None]:
    """Converts a ``Refusal`` to ``PromptRefused``."""
    try:
        yield
    except Refusal as refusal:
        raise PromptRefused(refusal.sentence) from refusal


class PrivateServer:
    """Listens on a socket file for other commands of this user. Starts and stops once."""

    def __init__(self, process: ServerProcess, folder: Path) -> None:
        self._folder = folder
        self._router = Router(process)
        self._server: AsgiServer | None = None
        self._other_folder = ""  # made for the socket if the data folder's path is too long
        self._starting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts in the background and returns at once: only a second prompt needs the socket."""
        self._starting = asyncio.create_task(self._start())

    async def listening(self) -> RunningServer | None:
        """Waits until it listens; ``None`` if it cannot."""
        if self._starting is not None:
            await self._starting
        if self._server is None:
            return None
        return RunningServer(str(self._server.endpoint), os.getpid(), is_temporary=True)

    async def stop(self) -> None:
        """Stops listening. Call it before the process stops."""
        if self._starting is not None:
            await asyncio.wait([self._starting])
        remove_server_file(self._folder)
        if self._server is not None:
            await self._server.stop()
        await job_host().stop_users_commands()  # requests wait for them
        await self._router.finish()
        if self._other_folder:
            shutil.rmtree(self._other_folder, ignore_errors=True)

    async def _start(self) -> None:
        try:
            self._server = await asyncio.to_thread(self._make)
            endpoint = await self._server.start()
            write_server_file(self._folder, str(endpoint), is_temporary=True)
        except Exception:
            logger.exception(
                "the private socket cannot be opened: a second prompt waits for this one"
            )

    def _make(self) -> AsgiServer:
        from crushsite.server.asgi_server import AsgiServer  # noqa: PLC0415  only a second prompt needs it

        return AsgiServer(
            guarded(self._router, unix=True),
            endpoint=f"unix://{self._socket()}",
            body_limit=settings.CRUSH_MAX_BODY_BYTES,
        )

    def _socket(self) -> Path:
        path = self._folder.resolve() / SOCKET
        if len(os.fsencode(path)) <= LONGEST_PATH:
            return path
        self._other_folder = tempfile.mkdtemp(prefix="crush-")  # for this user alone
        return Path(self._other_folder) / SOCKET
