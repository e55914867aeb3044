"""Gives a session its title: the small model writes it from a prompt.

The first prompt that gets an answer gives the title, unless a person has chosen one. The request
runs at the same time as the prompt's run and may outlive it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from agents.llm.contract import ModelRequest, Stopped, TextDelta, Usage
from agents.llm.errors import ModelError
from agents.llm.retries import stream_with_retries
from agents.llm.usage import RequestUsage, cost_of
from agents.models import UsageKind
from agents.prompts.render import title_prompt
from agents.runs.rows import Claimed
from agents.runs.setup import small_model_of
from agents.runs.usage import measure_usage, store_usage
from agents.turn.transcript import TurnMessage
from workspaces.actions.sessions import read_session, rename_session
from workspaces.log.errors import Refusal
from workspaces.log.parts import Role, Text
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.tasks import unless_set

logger = logging.getLogger(__name__)

TITLE_CHARS = 80
PROMPT_CHARS = 4_000
LONGEST_SECONDS = 60.0
WAIT_SECONDS = 1.0

# Starts work that may outlive the run.
Side = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


# The titles with which clients create sessions. No person chose them.
PLACEHOLDERS = frozenset({"", "New Session", "Untitled Session", "non-interactive"})


class FirstTitle:
    """The title that a run gives its session, if it has none yet."""

    def __init__(self, claimed: Claimed, side: Side) -> None:
        self._claimed = claimed
        self._side = side
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Requests the title if it is needed; called after the first text of the reply.

        An earlier request would delay the reply, for which a person waits.
        """
        claimed = self._claimed
        needs_title = claimed.is_top_level and is_placeholder(claimed.title)
        if self._task is None and needs_title and claimed.kind == "prompt":
            self._task = self._side(give_title(self._claimed))

    async def wait(self, cancelled: asyncio.Event) -> None:
        """Waits a moment for the title, so that a session's first run ends with it."""
        if self._task is not None and not self._task.done():
            await unless_set(self._task, cancelled, seconds=WAIT_SECONDS)


def is_placeholder(title: str) -> bool:
    return title.strip() in PLACEHOLDERS


async def give_title(claimed: Claimed) -> None:
    """Requests and stores a title. Errors are only logged: a session works without a title."""
    prompt = claimed.prompt.strip()[:PROMPT_CHARS]
    if not prompt:
        return
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            title, used = await _request_title(claimed, prompt)
        if title or used.is_known:
            await writer.write(claimed.workspace_id, lambda tx: _write(tx, claimed, title, used))
            measure_usage(used)
    except (ModelError, Refusal, TimeoutError) as error:
        logger.info("no title was given: %s", error, extra={"session": claimed.session_id})
    except Exception:
        logger.exception("giving a title failed", extra={"session": claimed.session_id})


async def _request_title(claimed: Claimed, prompt: str) -> tuple[str, RequestUsage]:
    small = await small_model_of(claimed.workspace_id)
    request = ModelRequest(
        model=small.info,
        system=title_prompt(),
        messages=(TurnMessage("", Role.USER, (Text(prompt),)),),
        max_tokens=min(small.info.default_max_tokens, 2_000),  # some models reason first
    )
    words: list[str] = []
    usage = Usage()
    stream = stream_with_retries(small.provider, request)
    try:
        async for batch in stream:
            for event in batch:
                if isinstance(event, TextDelta):
                    words.append(event.text)
                elif isinstance(event, Stopped):
                    usage = event.usage
    finally:
        await stream.aclose()
    lines = "".join(words).strip().splitlines()
    title = lines[0].strip().strip("\"'").strip() if lines else ""
    cost = cost_of(usage, small.info)
    used = RequestUsage(small.choice.provider, small.choice.model, usage, cost)
    return title[:TITLE_CHARS], used


def _write(tx: Transaction, claimed: Claimed, title: str, used: RequestUsage) -> None:
    store_usage(tx, claimed, used, kind=UsageKind.TITLE)
    session = read_session(tx, claimed.workspace_id, claimed.session_id)
    if not title or not is_placeholder(session["title"]):
        title = session["title"]  # a person has renamed the session meanwhile
    rename_session(tx, claimed.workspace_id, claimed.session_id, title=title)
