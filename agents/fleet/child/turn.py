"""The executor with a model: each assignment is a prompt in a session of its own.

Text and tool calls of the turn become events, permission requests go to the parent, and
the parent's messages steer the turn. The ``TurnHost`` provides the database and the
workers.
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
from agents.fleet.wire.frames import Status, Terminal
from agents.runs import nudges
from agents.runs.accept import Prompt, accept_prompt
from agents.runs.answer import answer
from agents.runs.cancel import cancel
from agents.states import Answer, RunOutcome
from workspaces.actions.messages import create_message
from workspaces.actions.sessions import create_session
from workspaces.log.errors import Refusal
from workspaces.log.ids import new_id
from workspaces.log.parts import Role, Text
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer


class Approvals:
    def __init__(self, context: RunContext, workspace_id: str, *, are_relayed: bool) -> None:
        """``are_relayed``: the parent answers permission requests; otherwise they are denied."""
        self.tasks: set[asyncio.Task[None]] = set()
        self._context = context
        self._workspace_id = workspace_id
        self._are_relayed = are_relayed

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
            approved = self._are_relayed and await self._context.approve(body)
            await answer(
                self._workspace_id,
                request_id=request["id"],
                answer=Answer.ALLOW if approved else Answer.DENY,
            )


MESSAGES_LIMIT = 1_000
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT}


def earlier_messages(messages: Iterable[Any]) -> list[tuple[Role, str]]:
    """Returns the messages without the last user message, which is the assignment itself.

    Messages are opaque on the wire: only texts of a user or an assistant are kept.
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
    """Returns a text, or joins the texts of a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") for part in content if isinstance(part, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))


TITLE_CHARS = 80
SETTLE_SECONDS = 2.5  # for a cancelled turn to end: less than ``CANCEL_SECONDS`` of its run


class TurnExecutor:
    def __init__(self, host: TurnHost) -> None:
        self._host = host

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    async def run(self, context: RunContext) -> Terminal:
        session_id = new_id()
        try:
            async with self._host.working(session_id, context.run) as workspace_id:
                return await _Turn(self._host, context, workspace_id, session_id).perform()
        except Refusal as refusal:
            raise ExecutorFailed(refusal.sentence) from refusal


class _Turn:
    """The turn of one assignment."""

    def __init__(
        self, host: TurnHost, context: RunContext, workspace_id: str, session_id: str
    ) -> None:
        self._host = host
        self._workspace_id = workspace_id
        self._context = context
        self._session_id = session_id
        self._rules = host.rules
        self._translation = Translation(session_id)
        self._open_keys: set[int] = set()  # accepted runs of the session
        self._ended: dict[int, Mapping[str, Any]] = {}
        self._last_end: Mapping[str, Any] = {}
        self._accepting = 0
        self._over = asyncio.Event()
        self._approvals = Approvals(context, workspace_id, are_relayed=host.rules.relays_approvals)
        self._limit_reached = ""

    async def perform(self) -> Terminal:
        await self._create_session()
        tasks: list[asyncio.Task[Any]] = []
        try:
            following = asyncio.create_task(self._follow(), name="follow")
            tasks.append(following)
            await self._accept(self._context.run.assignment, run_id=new_id())
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
            await self._context.unless_cancelled(
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
        host, run = self._host, self._context.run
        title = " ".join(run.assignment.split())[:TITLE_CHARS] or "assignment"
        earlier = earlier_messages(run.messages)
        workspace_id = self._workspace_id

        def job(tx: Transaction) -> None:
            create_session(
                tx,
                workspace_id,
                title=title,
                session_id=self._session_id,
                parent_session_id=host.parent_session_id,
            )
            for role, text in earlier:
                create_message(tx, workspace_id, self._session_id, role=role, parts=(Text(text),))

        await writer.write(workspace_id, job)

    # -- prompts

    async def _accept(self, text: str, *, run_id: str | None) -> None:
        """Accepts a prompt. Without a ``run_id`` it is folded into the active turn."""
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
                text = await self._context.next_message()
                if text.strip():
                    await self._accept(text, run_id=None)
                self._look_whether_over()

    # -- events

    async def _follow(self) -> None:
        """Follows the workspace's stream; reconnects if this reader was too slow."""
        after: int | None = None
        while True:
            async with aclosing(cast("Any", self._host.feed(self._workspace_id, after))) as chunks:
                async for chunk in chunks:
                    for item in self._translation.items_of(chunk):
                        await self._handle(item)
            after = self._translation.cursor

    async def _handle(self, item: Any) -> None:
        for event in self._translation.take(item):
            if self._limit_reached:
                break  # a reply beyond the limit sends no events
            try:
                await self._context.emit(event)
            except RunCancelled:
                break  # after a cancel, only the end of the turn follows
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
        if (
            not (self._open_keys or self._accepting or self._context.has_messages)
            and self._last_end
        ):
            self._over.set()

    # -- the end

    async def _cancel(self, following: asyncio.Task[None]) -> None:
        """Cancels the turn and waits a bounded time for its end."""
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
            case RunOutcome.COMPLETED:
                await self._context.emit({"type": "complete"})
                return Terminal(Status.COMPLETED, result=self._translation.answer)
            case RunOutcome.CANCELLED:
                return Terminal(Status.CANCELLED)
            case _:
                return Terminal(Status.ERROR, error=end.get("error") or "The run failed.")
