"""The executor that works: each assignment is a prompt in a session of its own.

What the turn says and does becomes events, its questions for permission go to
the parent, whose messages steer it. Where the database and the workers are is
known to the ``Place`` it is given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import aclosing, suppress
from typing import Any, cast

from agents.fleet.child.executor import ExecutorFailed
from agents.fleet.child.run_context import RunCancelled, RunContext
from agents.fleet.child.turn_events import Translation
from agents.fleet.child.turn_host import TurnHost
from agents.fleet.wire import Status, Terminal
from agents.runs import nudges
from agents.runs.accept import Prompt, accept_prompt
from agents.runs.answer import Answer, answer
from agents.runs.cancel import cancel
from workspaces.actions.messages import create_message
from workspaces.actions.sessions import create_session
from workspaces.log.errors import Refusal
from workspaces.log.ids import new_id
from workspaces.log.parts import Role, Text
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer


class Approvals:
    def __init__(self, desk: RunContext, workspace_id: str, *, are_asked: bool) -> None:
        """``are_asked``: the parent answers; else they are denied."""
        self.tasks: set[asyncio.Task[None]] = set()
        self._desk = desk
        self._workspace_id = workspace_id
        self._are_asked = are_asked

    def begin(self, request: Mapping[str, Any]) -> None:
        task = asyncio.create_task(self._relay(request), name="approval")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _relay(self, request: Mapping[str, Any]) -> None:
        tool, action, path = request["tool_name"], request["action"], request["path"]
        body = {
            "tool_name": tool,
            "permission_type": action,
            "resource": path,
            "question": request["description"] or f"May {tool} {action} {path}?",
        }
        with suppress(RunCancelled):
            approved = self._are_asked and await self._desk.approve(body)
            await answer(
                self._workspace_id,
                request_id=request["id"],
                answer=Answer.ALLOW if approved else Answer.DENY,
            )


MESSAGES_LIMIT = 1_000
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT}


def earlier_messages(messages: Iterable[Any]) -> list[tuple[Role, str]]:
    """Without the last user's, which is the assignment itself.

    Messages are opaque on the wire: what is no text of a user or an assistant is left out.
    """
    known = [turn for message in messages if (turn := _turn(message)) is not None]
    if known and known[-1][0] is Role.USER:
        known.pop()
    return known[-MESSAGES_LIMIT:]


def _turn(message: Any) -> tuple[Role, str] | None:
    if not isinstance(message, Mapping):
        return None
    name = message.get("role")
    role = _ROLES.get(name) if isinstance(name, str) else None
    text = _text(message.get("content"))
    return (role, text) if role is not None and text.strip() else None


def _text(content: Any) -> str:
    """A text, or the texts of a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") for part in content if isinstance(part, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))


TITLE_CHARS = 80
SETTLE_SECONDS = 2.5  # for a cancelled turn: less than the patience with a cancelled run


class TurnExecutor:
    def __init__(self, place: TurnHost) -> None:
        self._place = place

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    async def run(self, desk: RunContext) -> Terminal:
        session_id = new_id()
        try:
            async with self._place.working(session_id, desk.run) as workspace_id:
                return await _Turn(self._place, desk, workspace_id, session_id).perform()
        except Refusal as refusal:
            raise ExecutorFailed(refusal.sentence) from refusal


class _Turn:
    """One assignment."""

    def __init__(
        self, place: TurnHost, desk: RunContext, workspace_id: str, session_id: str
    ) -> None:
        self._place = place
        self._workspace_id = workspace_id
        self._desk = desk
        self._session_id = session_id
        self._rules = place.rules
        self._translation = Translation(session_id)
        self._open_keys: set[int] = set()  # accepted runs of the session
        self._ended: dict[int, Mapping[str, Any]] = {}
        self._last_end: Mapping[str, Any] = {}
        self._accepting = 0
        self._over = asyncio.Event()
        self._approvals = Approvals(desk, workspace_id, are_asked=place.rules.asks)
        self._limit_reached = ""

    async def perform(self) -> Terminal:
        await self._create_session()
        tasks: list[asyncio.Task[Any]] = []
        try:
            following = asyncio.create_task(self._follow(), name="follow")
            tasks.append(following)
            await self._accept(self._desk.run.assignment, run_id=new_id())
            tasks.append(asyncio.create_task(self._steer(), name="steer"))
            await self._until_over(following)
            if self._limit_reached:
                return Terminal(Status.ERROR, error=self._limit_reached)
            return await self._terminal()
        except RunCancelled:
            await self._cancel(following)
            raise
        except BaseException:
            await asyncio.shield(self._cancel_now())
            raise
        finally:
            tasks += self._approvals.tasks
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_over(self, following: asyncio.Task[None]) -> None:
        over = asyncio.ensure_future(self._over.wait())
        try:
            await self._desk.unless_cancelled(
                asyncio.wait(
                    {over, following},
                    timeout=self._rules.timeout_seconds,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            )
            if following.done():
                following.result()
            if not over.done():
                seconds = self._rules.timeout_seconds
                self._limit_reached = f"The run took longer than its limit of {seconds:g} s."
            if self._limit_reached:
                await self._cancel(following)
        finally:
            over.cancel()

    async def _create_session(self) -> None:
        place, run = self._place, self._desk.run
        title = " ".join(run.assignment.split())[:TITLE_CHARS] or "assignment"
        earlier = earlier_messages(run.messages)
        workspace_id = self._workspace_id

        def job(tx: Transaction) -> None:
            create_session(
                tx,
                workspace_id,
                title=title,
                session_id=self._session_id,
                parent_session_id=place.parent_session_id,
            )
            for role, text in earlier:
                create_message(tx, workspace_id, self._session_id, role=role, parts=(Text(text),))

        await writer.write(workspace_id, job)

    # -- prompts

    async def _accept(self, text: str, *, run_id: str | None) -> None:
        """Without a ``run_id`` it is folded into the turn that works already."""
        workspace_id = self._workspace_id
        prompt = Prompt(self._session_id, text, run_id)
        self._accepting += 1
        try:
            key = await writer.write(
                workspace_id, lambda tx: accept_prompt(tx, workspace_id, prompt)
            )
        finally:
            self._accepting -= 1
        if key not in self._ended:
            self._open_keys.add(key)
        await nudges.nudge_accepted()

    async def _steer(self) -> None:
        with suppress(RunCancelled):
            while True:
                text = await self._desk.next_message()
                if text.strip():
                    await self._accept(text, run_id=None)
                self._look_whether_over()

    # -- what happens

    async def _follow(self) -> None:
        """Reads the workspace's feed to its end; a reader that was too slow comes back."""
        after: int | None = None
        while True:
            async with aclosing(cast("Any", self._place.feed(self._workspace_id, after))) as chunks:
                async for chunk in chunks:
                    for item in self._translation.items_of(chunk):
                        await self._hear(item)
            after = self._translation.cursor

    async def _hear(self, item: Any) -> None:
        for event in self._translation.take(item):
            if self._limit_reached:
                break  # of a reply beyond the limit nothing is told
            try:
                await self._desk.emit(event)
            except RunCancelled:
                break  # what follows is only its end
        if not isinstance(item, dict):
            return
        match item["type"]:
            case "run.finished" | "run.folded":
                self._note_end(item["data"]["run"], is_folded=item["type"] == "run.folded")
            case "permission.requested":
                request = item["data"]["request"]
                if request["session_id"] in self._translation.session_ids:
                    self._approvals.begin(request)
            case _:
                pass
        rounds = self._rules.max_rounds
        if rounds is not None and self._translation.replies > rounds and not self._limit_reached:
            self._limit_reached = f"The run reached its limit of {rounds} rounds."
            self._over.set()

    def _note_end(self, run: Mapping[str, Any], *, is_folded: bool) -> None:
        if run["session_id"] != self._session_id:
            return
        self._ended[run["key"]] = run
        self._open_keys.discard(run["key"])
        if not is_folded:
            self._last_end = run
        self._look_whether_over()

    def _look_whether_over(self) -> None:
        if not (self._open_keys or self._accepting or self._desk.has_messages) and self._last_end:
            self._over.set()

    # -- the end

    async def _cancel(self, following: asyncio.Task[None]) -> None:
        """Returns when the turn has ended, or soon after."""
        self._over.clear()
        await self._cancel_now()
        over = asyncio.ensure_future(self._over.wait())
        if self._open_keys:
            await asyncio.wait(
                {over, following}, timeout=SETTLE_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        over.cancel()

    async def _cancel_now(self) -> None:
        with suppress(Refusal):
            await cancel(self._workspace_id, self._session_id)

    async def _terminal(self) -> Terminal:
        end = self._last_end
        match end["outcome"]:
            case "completed":
                await self._desk.emit({"type": "complete"})
                return Terminal(Status.COMPLETED, result=self._translation.answer)
            case "cancelled":
                return Terminal(Status.CANCELLED)
            case _:
                return Terminal(Status.ERROR, error=end.get("error") or "The run failed.")
