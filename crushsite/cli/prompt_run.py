"""Sends a prompt and waits until its run has ended, across broken connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from typing import Any, assert_never, cast

from crushsite.cli.request_text import PermissionQuestion
from crushsite.cli.session import (
    FeedBroken,
    PromptRefused,
    PromptSession,
    ServerAway,
)
from crushsite.cli.terminal_output import (
    FeedOpened,
    FeedTooSlow,
    RequestClosed,
    RunEnded,
    RunStarted,
    Survey,
    TerminalOutput,
)
from crushsite.cli.user_answers import LeftOpen, PermissionAnswerer, QuestionAnswerer

AGAIN_SECONDS = 0.5
RECONNECT_TIMEOUT_SECONDS = 60.0  # enough for a server to restart


class PromptRun:
    """One prompt and its answer. ``cancel`` may be called at any time."""

    def __init__(
        self,
        conversation: PromptSession,
        transcript: TerminalOutput,
        asker: PermissionAnswerer,
        surveyor: QuestionAnswerer,
        *,
        send: Callable[[], Any],
        session_id: str,
        title: str,
        note: Callable[[str], None],
    ) -> None:
        self._conversation = conversation
        self._transcript = transcript
        self._asker = asker
        self._surveyor = surveyor
        self._send = send
        self._session_id = session_id
        self._title = title
        self._note = note
        self._is_sent = False
        self._is_cancelled = False
        self._questions: dict[str, asyncio.Task[None]] = {}
        self._asking = asyncio.Lock()  # one question at a time
        self._is_open = asyncio.Event()  # the workspace is open at a reachable server
        self._is_open.set()

    async def until_end(self) -> RunEnded:
        """Returns how the run ended. Raises ``PromptRefused`` if the server is gone or refuses."""
        try:
            return await self._follow()
        finally:
            for task in self._questions.values():
                task.cancel()
            await asyncio.gather(*self._questions.values(), return_exceptions=True)

    async def cancel(self) -> None:
        self._is_cancelled = True
        self._note("cancelling\n")
        for task in self._questions.values():
            task.cancel()
        with suppress(PromptRefused):
            await self._conversation.cancel(self._session_id)

    async def _follow(self) -> RunEnded:
        loop = asyncio.get_running_loop()
        gone_since: float | None = None
        while True:
            try:
                if gone_since is not None:
                    await self._conversation.open()
                    self._is_open.set()
                async for news in self._news():
                    gone_since = None
                    if isinstance(news, RunEnded):
                        return news
            except (FeedBroken, PromptRefused) as error:
                if gone_since is None and isinstance(error, PromptRefused):
                    raise
                self._is_open.clear()
                gone_since = gone_since or loop.time()
                if loop.time() - gone_since > RECONNECT_TIMEOUT_SECONDS:
                    raise PromptRefused(
                        f"The server has not come back ({error}). The prompt was accepted: its"
                        " answer will be in the session."
                    ) from error
                await asyncio.sleep(AGAIN_SECONDS)

    async def _news(self) -> Any:
        feed = self._conversation.feed(self._transcript.cursor)
        async with aclosing(cast("Any", feed)) as items:
            async for item in items:
                news = self._transcript.take(item)
                match news:
                    case None:
                        continue
                    case FeedOpened():
                        await self._send_once()
                    case RunStarted():
                        await self._name()
                    case PermissionQuestion() | Survey():
                        self._begin(news)
                    case RequestClosed():
                        if task := self._questions.pop(news.request_id, None):
                            task.cancel()
                    case RunEnded():
                        pass
                    case FeedTooSlow():
                        return
                    case _:
                        assert_never(news)
                yield news

    async def _send_once(self) -> None:
        """Sends the prompt once the feed is live, so that no part of the answer is missed."""
        if not self._is_sent:
            waiting = self._transcript.waiting(await self._conversation.pending())
            for news in waiting:
                self._begin(news)
            trusts = [
                n.request_id for n in waiting if isinstance(n, PermissionQuestion) and n.is_trust
            ]
            if trusts:  # the decision already applies to this prompt
                await asyncio.wait([self._questions[request_id] for request_id in trusts])
            if self._is_cancelled:
                raise PromptRefused("Cancelled before the prompt was sent.")
            await self._send()
            self._is_sent = True

    async def _name(self) -> None:
        # Only after the run has started: the small model's title, which the session's first run
        # requests, replaces an earlier title but not a later one.
        if self._title:
            await self._conversation.rename(self._session_id, title=self._title)

    def _begin(self, news: PermissionQuestion | Survey) -> None:
        wanted = news.request_id if isinstance(news, PermissionQuestion) else news.batch_id
        if wanted not in self._questions:
            answering = (
                self._answer(news) if isinstance(news, PermissionQuestion) else self._survey(news)
            )
            self._questions[wanted] = asyncio.create_task(answering)

    async def _survey(self, survey: Survey) -> None:
        with suppress(LeftOpen):
            async with self._asking:
                responses = await self._surveyor.survey(survey)
            await self._give(lambda: self._conversation.answer_batch(survey.batch_id, responses))

    async def _answer(self, question: PermissionQuestion) -> None:
        with suppress(LeftOpen):
            async with self._asking:
                reply = await self._asker.ask(question)
            await self._give(
                lambda: self._conversation.answer(
                    question.request_id, reply.answer, folder=reply.folder
                )
            )

    async def _give(self, answer: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        """Retries until the server accepts the answer, so that a restart does not lose it."""
        while True:
            await self._is_open.wait()
            try:
                # Shielded: our answer's event may cancel this task before the response arrives.
                await asyncio.shield(answer())
                return
            except ServerAway:
                await asyncio.sleep(AGAIN_SECONDS)
            except PromptRefused as refusal:
                self._note(f"The answer was not accepted: {refusal}\n")
                return
