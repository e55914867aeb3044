"""A person's answer to a permission request, while the server it belongs to goes away and returns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from agents.states import Answer
from crushsite.cli.prompt_run import PromptRun
from crushsite.cli.request_text import PermissionQuestion
from crushsite.cli.session import FeedBroken, Item, Pending, PromptRefused, ServerAway
from crushsite.cli.terminal_output import RunEnded, TerminalOutput
from crushsite.cli.user_answers import NobodyToAsk, PermissionAnswer

SESSION, RUN = "s-1", "r-1"


def event(number: int, kind: str, **data: Any) -> Item:
    return {"number": number, "type": kind, "data": data}


STARTED = event(2, "run.started", run={"session_id": SESSION, "run_id": RUN})
ASKED = event(
    3,
    "permission.requested",
    request={
        "id": "p-1",
        "session_id": SESSION,
        "tool_name": "bash",
        "action": "execute",
        "path": "/project",
        "description": "",
        "params": {"command": "touch made"},
    },
)
FINISHED = event(
    4, "run.finished", run={"session_id": SESSION, "run_id": RUN, "outcome": "completed"}
)


class Asks:
    """Answers when the test lets it."""

    def __init__(self) -> None:
        self.is_shown = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        self.is_shown.set()
        await self.may_answer.wait()
        return PermissionAnswer(Answer.ALLOW)


class Folder:
    """Its first server dies when the request is shown; the second one opens when the test lets it."""

    def __init__(self, asker: Asks, refusals: Sequence[Exception] = ()) -> None:
        self._asker = asker
        self._refusals = list(refusals)
        self.is_opening = asyncio.Event()
        self.may_open = asyncio.Event()
        self.is_open = True
        self.answers: list[str] = []
        self._is_answered = asyncio.Event()

    async def open(self) -> None:
        self.is_opening.set()
        await self.may_open.wait()
        self.is_open = True

    async def feed(self, after: int | None) -> AsyncIterator[Item]:
        yield {"type": "stream.opened", "data": {"number": after or 1}}
        if after is None:
            yield STARTED
            yield ASKED
            await self._asker.is_shown.wait()
            self.is_open = False
            raise FeedBroken("the server was killed")
        await self._is_answered.wait()
        yield FINISHED

    async def answer(self, request_id: str, answer: Answer, *, folder: str = "") -> bool:
        if not self.is_open and self.is_opening.is_set():
            raise PromptRefused("The workspace does not exist.")
        if not self.is_open:
            raise ServerAway("The server is gone.")
        if self._refusals:
            raise self._refusals.pop(0)
        self.answers.append(request_id)
        self._is_answered.set()
        return True

    async def ensure_session(self, session_id: str) -> str:
        return session_id

    async def rename(self, session_id: str, *, title: str) -> None:
        raise AssertionError("no title was given")

    async def prompt(self, session_id: str, text: str, *, run_id: str) -> None:
        raise AssertionError("the test sends by itself")

    async def answer_batch(
        self, batch_id: str, responses: Sequence[Mapping[str, Any]] | None
    ) -> bool:
        raise AssertionError("no questions were asked")

    async def pending(self) -> Pending:
        return Pending((), ())

    async def jobs_that_end(self) -> list[str]:
        return []

    async def wait_for_others(self, note: Callable[[str], None]) -> None:
        return

    async def cancel(self, session_id: str) -> None:
        raise AssertionError("nobody cancels")

    async def close(self) -> None:
        return


async def sent() -> None:
    return


def waiting_in(folder: Folder, asker: Asks, notes: list[str]) -> PromptRun:
    transcript = TerminalOutput(
        session_id=SESSION, run_id=RUN, say=lambda _: None, note=lambda _: None
    )
    return PromptRun(
        folder,
        transcript,
        asker,
        NobodyToAsk(notes.append),
        send=sent,
        session_id=SESSION,
        title="",
        note=notes.append,
    )


async def test_an_answer_waits_until_the_next_server_has_opened_the_workspace() -> None:
    asker = Asks()
    folder, notes = Folder(asker), []
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        ending = tasks.create_task(waiting_in(folder, asker, notes).until_end())
        await folder.is_opening.wait()
        asker.may_answer.set()
        for _ in range(20):  # turns of the loop: an answer that does not wait is sent in these
            await asyncio.sleep(0)
        folder.may_open.set()
    assert ending.result() == RunEnded("completed", "")
    assert folder.answers == ["p-1"]
    assert notes == []


async def test_an_answer_is_repeated_while_the_server_cannot_take_it() -> None:
    asker = Asks()
    folder = Folder(asker, [ServerAway("The database is not available.")])
    notes: list[str] = []
    asker.may_answer.set()
    folder.may_open.set()
    async with asyncio.timeout(60):
        assert await waiting_in(folder, asker, notes).until_end() == RunEnded("completed", "")
    assert folder.answers == ["p-1"]
    assert notes == []
