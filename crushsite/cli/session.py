"""A session on a server, as a prompt on a terminal uses it: the interface, and ``OverServer``.

The other implementation is ``in_process.InProcess``. The items of the feed are those of the native
stream: an event is an object, a delta is an array.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from django.db import DatabaseError, connection

from agents.models import Job, Run
from agents.states import ACTIVE, Answer, JobState
from crushsite.cli.exit_codes import Exit
from crushsite.program_name import command_line
from crushsite.server_client import RunningServer, in_path, named_server
from workspaces.log.ids import new_id
from workspaces.log.timestamps import now_ms
from workspaces.models import ClientClaim

if TYPE_CHECKING:
    from crushclient import Client, EventStream, StreamItem

UNAUTHORISED = frozenset({401, 403})
RESUME_SECONDS = 1.0  # after that the server may be another one
SHORTEST_BEGINNING = 4  # characters of an id that may stand for the whole

Choices: TypeAlias = Mapping[str, Any]
Item: TypeAlias = Mapping[str, Any] | Sequence[Any]


@dataclass(frozen=True, slots=True)
class Pending:
    """Permission requests and batches of questions, as the feed shows them."""

    permissions: Sequence[Mapping[str, Any]]
    questions: Sequence[Mapping[str, Any]]


class FeedBroken(Exception):
    """The feed broke off; it may be resumed at its cursor."""


class PromptRefused(Exception):
    """The request was refused; the sentence says why."""

    exit_code = Exit.FAILED


class NotAuthorised(PromptRefused):
    """The server refuses the credential, or its user lacks the right."""

    exit_code = Exit.UNAUTHORISED


class ServerAway(PromptRefused):
    """The server is unreachable now. A retry may succeed."""

    exit_code = Exit.UNREACHABLE


class PromptSession(Protocol):
    """One client in one workspace. Every method may raise ``PromptRefused``."""

    async def open(self) -> None:
        """Opens the workspace. May be called again after the connection was lost."""

    async def ensure_session(self, session_id: str) -> str:
        """Returns the session's id, or that of a new session if the id is empty."""

    async def rename(self, session_id: str, *, title: str) -> None:
        """Gives the session this title."""

    def feed(self, after: int | None) -> AsyncIterator[Item]:
        """Yields what follows the cursor; ``None`` starts now. Raises ``FeedBroken``."""

    async def session_named(self, wanted: str) -> str:
        """Returns the whole id of a session of the open workspace, by its beginning."""

    async def prompt(
        self, session_id: str, text: str, *, run_id: str, choices: Choices | None = None
    ) -> None:
        """Returns when the prompt is durably accepted. The same ``run_id`` is the same run.

        ``choices``: the prompt's ``strategy`` and ``options``, as in the native interface.
        """

    async def answer(self, request_id: str, answer: Answer, *, folder: str = "") -> bool:
        """Sends the answer. Returns ``False`` if another client answered first."""

    async def answer_batch(
        self, batch_id: str, responses: Sequence[Mapping[str, Any]] | None
    ) -> bool:
        """Sends the answers; ``None`` dismisses. Returns ``False`` if another client was first."""

    async def pending(self) -> Pending:
        """Returns the open requests and questions of the workspace."""

    async def jobs_that_end(self) -> list[str]:
        """Returns the background commands that ``close`` ends, as no other client is left."""

    async def wait_for_others(self, note: Callable[[str], None]) -> None:
        """Waits until no other prompt needs this process. Cancelling leaves the rest to others."""

    async def cancel(self, session_id: str) -> None:
        """Cancels everything accepted in the session so far."""

    async def close(self) -> None:
        """Releases the workspace. Never raises; may be called without ``open``."""


def jobs_held_by(workspace_id: str, client_id: str) -> list[str]:
    """Returns the client's background commands, oldest first.

    Empty if another client or a run keeps the workspace open. Synchronous. Reads the database
    directly, like other commands: the API does not list jobs.
    """
    try:
        others = ClientClaim.objects.filter(workspace_id=workspace_id, expires_at__gt=now_ms())
        runs = Run.objects.filter(workspace_id=workspace_id, state__in=ACTIVE)
        if others.exclude(client_id=client_id).exists() or runs.exists():
            return []
        jobs = Job.objects.filter(workspace_id=workspace_id, state=JobState.RUNNING)
        return list(jobs.order_by("started_at").values_list("command", flat=True))
    except DatabaseError:
        return []  # only informational: no reason to fail
    finally:
        connection.close()


class OverServer:
    """A session on a running server, by the client that other programs use, too.

    The stream resumes by itself after a short interruption. A longer one ends the feed, so that
    ``open`` looks where the server is by then.
    """

    def __init__(self, folder: Path, server: RunningServer, path: str) -> None:
        self._folder = folder
        self._server = server
        self._path = path
        self._client_id = new_id()
        self._client: Client | None = None
        self._workspace_id = ""
        self._stream: EventStream | None = None

    async def open(self) -> None:
        if not self._server.is_named:
            # A restarted server may listen at another address.
            now = named_server(self._folder) or self._server
            if now != self._server:
                self._server = now
                await self._leave()
        with _as_refusals():
            opened = await self._there.open_workspace(self._path, client_id=self._client_id)
        self._workspace_id = opened.id

    async def ensure_session(self, session_id: str) -> str:
        if session_id:
            await self._call("GET", f"{self._v1}/sessions/{in_path(session_id)}")
            return session_id
        session = await self._call("POST", f"{self._v1}/sessions", {"title": ""})
        return str(session["id"])

    async def rename(self, session_id: str, *, title: str) -> None:
        await self._call("PUT", f"{self._v1}/sessions/{in_path(session_id)}", {"title": title})

    async def feed(self, after: int | None) -> AsyncIterator[Item]:
        stream = self._there.stream(
            self._workspace_id, after=after, client_id=self._client_id, path=self._path
        )
        try:
            with _as_refusals():
                await stream.open()
                self._stream = stream
                async for item in stream:
                    if (shown := wire_of(item)) is not None:
                        yield shown
        except ServerAway as away:
            raise FeedBroken(str(away)) from away
        finally:
            self._stream = None
            await stream.close()
        raise FeedBroken("the server closed the stream")

    async def session_named(self, wanted: str) -> str:
        found = await self._call("GET", f"{self._v1}/sessions")
        known = [str(session["id"]) for session in found]
        if (matching := _like(wanted, known)) and len(matching) == 1:
            return matching[0]
        # In another folder, or a child session: their list takes longer.
        query: dict[str, str | int | bool] = {"id": wanted, "with_children": True, "limit": 2}
        others = (await self._call("GET", "/api/sessions", query=query))["items"]
        matching = _like(wanted, [str(session["id"]) for session in others])
        if len(matching) != 1:
            problem = "Several sessions begin with" if matching else "There is no session"
            raise PromptRefused(f"{problem} {wanted!r}. `{command_line('sessions')}` lists them.")
        session = next(each for each in others if each["id"] == matching[0])
        if session["path"] != self._path:
            raise PromptRefused(in_other_folder(matching[0], session["path"]))
        return matching[0]

    async def prompt(
        self, session_id: str, text: str, *, run_id: str, choices: Choices | None = None
    ) -> None:
        fields = {"text": text, "run_id": run_id, **(choices or {})}
        if self._stream is not None:
            with _as_refusals():
                await self._stream.prompt(session_id, **fields)
        elif choices:
            below = f"/api/workspaces/{in_path(self._workspace_id)}"
            await self._call("POST", f"{below}/sessions/{in_path(session_id)}/prompts", fields)
        else:
            body = {"session_id": session_id, "prompt": text, "run_id": run_id}
            await self._call("POST", f"{self._v1}/agent", body)

    async def answer(self, request_id: str, answer: Answer, *, folder: str = "") -> bool:
        options = {"folder": folder} if folder else {}
        with _as_refusals():
            return await self._live.answer(request_id, answer.value, **options)

    async def answer_batch(
        self, batch_id: str, responses: Sequence[Mapping[str, Any]] | None
    ) -> bool:
        with _as_refusals():
            if responses is None:
                return await self._live.dismiss_questions(batch_id=batch_id)
            return await self._live.answer_questions(responses, batch_id=batch_id)

    async def pending(self) -> Pending:
        path = f"/api/workspaces/{in_path(self._workspace_id)}/snapshot"
        snapshot = await self._call("GET", path)
        return Pending(snapshot["permissions"], snapshot["questions"])

    async def jobs_that_end(self) -> list[str]:
        if self._server.is_named:
            return []  # its database is elsewhere
        return await asyncio.to_thread(jobs_held_by, self._workspace_id, self._client_id)

    async def wait_for_others(self, note: Callable[[str], None]) -> None:
        """Returns at once: the server performs the other runs."""

    async def cancel(self, session_id: str) -> None:
        await self._call("POST", f"{self._v1}/agent/sessions/{in_path(session_id)}/cancel")

    async def close(self) -> None:
        if self._workspace_id:
            with suppress(PromptRefused):
                await self._call("DELETE", self._v1, query={"client_id": self._client_id})
        await self._leave()

    async def _leave(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    @property
    def _there(self) -> Client:
        if self._client is None:
            from crushclient import Client, RetryPolicy, TlsOptions  # noqa: PLC0415  help does without

            server = self._server
            # A local address comes from our own data folder; its certificate is for a public name.
            tls = TlsOptions(ca_file=server.ca_file or None, verify=server.is_named)
            retry = RetryPolicy(attempts=1, give_up_seconds=RESUME_SECONDS)
            self._client = Client(server.url, token=server.token, tls=tls, retry=retry)
        return self._client

    @property
    def _live(self) -> EventStream:
        if self._stream is None:
            raise ServerAway("The stream is not open.")
        return self._stream

    @property
    def _v1(self) -> str:
        return f"/v1/workspaces/{in_path(self._workspace_id)}"

    async def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str | int | bool] | None = None,
    ) -> Any:
        with _as_refusals():
            return await self._there.request(method, path, body=body, query=query)


@contextmanager
def _as_refusals() -> Iterator[None]:
    """Converts the client's errors to ``PromptRefused``."""
    from crushclient import ApiError, CrushError  # noqa: PLC0415  loaded by the caller

    try:
        yield
    except ApiError as error:
        sentence = "".join([str(error), *(f" {dict(each)}" for each in error.errors)])
        if error.status >= 500:
            raise ServerAway(sentence) from error
        kind = NotAuthorised if error.status in UNAUTHORISED else PromptRefused
        raise kind(sentence) from error
    except CrushError as error:
        raise ServerAway(f"The connection to the server failed: {error}") from error


def wire_of(item: StreamItem) -> Item | None:
    """The item as the native stream contains it; ``None`` for what is not from the server. Pure."""
    from crushclient import items  # noqa: PLC0415  loaded by the caller

    match item:
        case items.NewText():
            delta: list[Any] = [item.number, item.part, item.offset, item.text]
            if item.offset == 0:
                is_call = item.kind == "tool_call"
                delta.append(item.header if is_call else item.kind)
            return delta
        case items.LogEvent():
            return {"number": item.number, "type": item.type, "data": item.data}
        case items.MessageState():
            data = {"number": item.number, "message": item.message}
            return {"type": "message.progress", "data": data}
        case items.OutputSoFar():
            return {"type": "tool.output", "data": asdict(item)}
        case items.StreamLive():
            return {"type": "stream.opened", "data": {"number": item.number}}
        case items.OtherItem():
            return {"type": item.type, "data": item.data}
        case _:
            return None


def _like(wanted: str, ids: Sequence[str]) -> list[str]:
    """The id itself, or those that begin so."""
    if wanted in ids:
        return [wanted]
    is_long_enough = len(wanted) >= SHORTEST_BEGINNING
    return [each for each in ids if is_long_enough and each.startswith(wanted)]


def in_other_folder(session_id: str, path: str) -> str:
    return f"Session {session_id} belongs to another folder: add --path {path}."
