"""Turns a sub-agent's questions into permission requests, and returns the answers.

Any number may be open at once. An answer given in this process arrives at once. The database is
read as well, because another process may have stored the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

from agents.fleet.event_mapping import params_of, words_of
from agents.runs.calls.permission_check import CallVerdict, QuestionChanged, judge_call
from agents.runs.lease import Lease
from agents.tools.contract import Question
from permissions.pending import state_of_request
from workspaces.log.reader import read
from workspaces.log.writer import writer

LOOK_SECONDS = 0.5
ID_LIMIT = 100


class ChildQuestions:
    def __init__(
        self,
        held: Lease,
        *,
        path: str,
        allowed_tools: frozenset[str],
        on_waiting: Callable[[bool], Awaitable[None]],
    ) -> None:
        """``on_waiting`` is told when the first question waits, and when none waits any more."""
        self._held = held
        self._path = path
        self._allowed_tools = allowed_tools
        self._on_waiting = on_waiting
        self._answers: dict[str, asyncio.Future[bool]] = {}

    def hear_answer(self, call_id: str, *, granted: bool) -> None:
        future = self._answers.get(call_id)
        if future is not None and not future.done():
            future.set_result(granted)

    async def ask(self, request_id: str, body: Any) -> bool:
        """Cancelled when the sub-agent's run ends first; the request is withdrawn with it."""
        question = Question(
            tool_name=words_of(body, "tool_name", default="sub-agent", most=200),
            action=words_of(body, "permission_type", default="execute", most=100),
            path=words_of(body, "resource", default=self._path),
            description=words_of(body, "question", default="A sub-agent asks for permission."),
            params=params_of(body),
        )
        call_id = _stored_id(request_id)
        try:
            verdict = await writer.write(
                self._held.workspace_id,
                lambda tx: judge_call(
                    tx,
                    self._held,
                    question,
                    call_id=call_id,
                    allowed_tools=self._allowed_tools,
                ),
            )
        except QuestionChanged:
            return False
        if verdict is not CallVerdict.ASKED:
            return verdict is CallVerdict.ALLOWED
        return await self._wait(call_id)

    async def _wait(self, call_id: str) -> bool:
        answer = self._answers[call_id] = asyncio.get_running_loop().create_future()
        try:
            if len(self._answers) == 1:
                await self._on_waiting(True)
            return await self._answered(call_id, answer)
        finally:
            del self._answers[call_id]
            if not self._answers:
                await self._on_waiting(False)

    async def _answered(self, call_id: str, answer: asyncio.Future[bool]) -> bool:
        while not answer.done():
            # First of all: it may have been answered before anybody listened.
            state = await read(state_of_request, self._held.key, call_id)
            if state != "pending":
                return state == "allowed"
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    return await asyncio.shield(answer)
        return answer.result()


def _stored_id(request_id: str) -> str:
    """The sub-agent chose it; it names the request within its run."""
    if len(request_id) <= ID_LIMIT and request_id.isascii() and request_id.isprintable():
        return request_id
    return "sa-" + hashlib.blake2b(request_id.encode(), digest_size=16).hexdigest()
