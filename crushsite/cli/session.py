"""What a prompt on a terminal needs of a server, wherever that server runs.

``over_http`` and ``in_process`` implement it. An item of the feed is what the native stream
sends: an event as an object, words as an array.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from django.db import DatabaseError, connection

from agents.models import Job, JobState, Run, RunState
from agents.runs.answer import Answer
from workspaces.log.timestamps import now_ms
from workspaces.models import ClientClaim

Item: TypeAlias = Mapping[str, Any] | Sequence[Any]


@dataclass(frozen=True, slots=True)
class Pending:
    """Permission requests and batches of questions, as the feed shows them."""

    permissions: Sequence[Mapping[str, Any]]
    questions: Sequence[Mapping[str, Any]]


class FeedBroken(Exception):
    """The feed ended in the middle; it may go on from its cursor."""


class PromptRefused(Exception):
    """What was asked for cannot be done; the sentence says why."""


class ServerAway(PromptRefused):
    """The server cannot be reached now. Asking again may work."""


class PromptSession(Protocol):
    """One client in one workspace. Every method may raise ``PromptRefused``."""

    async def open(self) -> None:
        """Opens the workspace. Callable again, after the server was gone."""

    async def ensure_session(self, session_id: str) -> str:
        """That session, or a new one when the id is empty."""

    async def rename(self, session_id: str, *, title: str) -> None:
        """Gives the session this title."""

    def feed(self, after: int | None) -> AsyncIterator[Item]:
        """What happens after the cursor, ``None``: from now on. Raises ``FeedBroken``."""

    async def prompt(self, session_id: str, text: str, *, run_id: str) -> None:
        """Returns when the prompt is durably accepted. The same ``run_id`` is the same run."""

    async def answer(self, request_id: str, answer: Answer, *, folder: str = "") -> bool:
        """``False`` when somebody else was first."""

    async def answer_batch(
        self, batch_id: str, responses: Sequence[Mapping[str, Any]] | None
    ) -> bool:
        """``None`` dismisses the questions. ``False`` when somebody else was first."""

    async def pending(self) -> Pending:
        """What waits for somebody in the workspace now."""

    async def jobs_that_end(self) -> list[str]:
        """The background commands that ``close`` ends, because nobody else is there."""

    async def wait_for_others(self, note: Callable[[str], None]) -> None:
        """Until nothing needs this process any more. Cancelling leaves the rest to others."""

    async def cancel(self, session_id: str) -> None:
        """Everything accepted in the session until now."""

    async def close(self) -> None:
        """Lets the workspace go. Never raises; callable without ``open``."""


def jobs_held_by(workspace_id: str, client_id: str) -> list[str]:
    """The client's background commands, oldest first; none where another client or a run keeps the workspace open.

    Synchronous. Reads the database directly, as other commands do: jobs are no part of the interface.
    """
    try:
        others = ClientClaim.objects.filter(workspace_id=workspace_id, expires_at__gt=now_ms())
        working = (RunState.ACCEPTED, RunState.RUNNING, RunState.READY)
        runs = Run.objects.filter(workspace_id=workspace_id, state__in=working)
        if others.exclude(client_id=client_id).exists() or runs.exists():
            return []
        jobs = Job.objects.filter(workspace_id=workspace_id, state=JobState.RUNNING)
        return list(jobs.order_by("started_at").values_list("command", flat=True))
    except DatabaseError:
        return []  # it is news about the end, not a reason to fail
    finally:
        connection.close()
