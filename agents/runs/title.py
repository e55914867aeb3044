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
from agents.llm.usage import cost_of
from agents.prompts.template import title_prompt
from agents.runs.rows import Claimed
from agents.runs.setup import small_model_of
from agents.turn.transcript import TurnMessage
from workspaces.actions.sessions import add_usage, read_session, rename_session
from workspaces.log.errors import Refusal
from workspaces.log.parts import Role, Text
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer

logger = logging.getLogger(__name__)

TITLE_CHARS = 80
PROMPT_CHARS = 4_000
LONGEST_SECONDS = 60.0
WAIT_SECONDS = 1.0

# Begins work that may outlive the run.
Side = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


# The titles that clients create sessions with: nobody chose these.
PLACEHOLDERS = frozenset({"", "New Session", "Untitled Session", "non-interactive"})


class FirstTitle:
    """The title that a run gives its session, if it has none yet."""

    def __init__(self, claimed: Claimed, side: Side) -> None:
        self._claimed = claimed
        self._side = side
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Not before the first words of the answer: somebody waits for those."""
        claimed = self._claimed
        needs_title = claimed.is_top_level and is_placeholder(claimed.title)
        if self._task is None and needs_title and claimed.kind == "prompt":
            self._task = self._side(give_title(self._claimed))

    async def wait(self, cancelled: asyncio.Event) -> None:
        """A session's first run ends with its title known, unless that takes long."""
        if self._task is not None and not self._task.done():
            seen = asyncio.ensure_future(cancelled.wait())
            await asyncio.wait(
                {self._task, seen},
                timeout=WAIT_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )
            seen.cancel()


def is_placeholder(title: str) -> bool:
    return title.strip() in PLACEHOLDERS


async def give_title(claimed: Claimed) -> None:
    """Best effort: a session without a title of its own works all the same."""
    prompt = claimed.prompt.strip()[:PROMPT_CHARS]
    if not prompt:
        return
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            title, usage, cost = await _ask(claimed, prompt)
        if title:
            await writer.write(
                claimed.workspace_id, lambda tx: _write(tx, claimed, title, usage, cost)
            )
    except (ModelError, Refusal, TimeoutError) as error:
        logger.info("no title was given: %s", error, extra={"session": claimed.session_id})
    except Exception:
        logger.exception("giving a title failed", extra={"session": claimed.session_id})


async def _ask(claimed: Claimed, prompt: str) -> tuple[str, Usage, float]:
    small = await small_model_of(claimed.workspace_id)
    request = ModelRequest(
        model=small.info,
        system=title_prompt(),
        messages=(TurnMessage("", Role.USER, (Text(prompt),)),),
        max_tokens=min(small.info.default_max_tokens, 2_000),  # some think before they answer
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
    return title[:TITLE_CHARS], usage, cost_of(usage, small.info)


def _write(tx: Transaction, claimed: Claimed, title: str, usage: Usage, cost: float) -> None:
    add_usage(
        tx,
        claimed.session_id,
        prompt_tokens=usage.input + usage.cache_read + usage.cache_write,
        completion_tokens=usage.output,
        cost=cost,
    )
    session = read_session(tx, claimed.workspace_id, claimed.session_id)
    if not is_placeholder(session["title"]):
        title = session["title"]  # somebody renamed it meanwhile
    rename_session(tx, claimed.workspace_id, claimed.session_id, title=title)
