"""A session that a person follows at a terminal: what is drawn, and what each key does."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.rule import Rule
from rich.text import Text

from crushclient import (
    CrushError,
    FoldedMessage,
    FoldedSession,
    LogEvent,
    MessageState,
    NewText,
    StateReplaced,
    StreamItem,
    StreamLive,
    StreamLost,
)
from crushsite.cli.request_text import question_of
from crushsite.cli.terminal import cut, visible
from crushsite.cli.terminal_output import Survey, plain
from crushsite.cli.user_answers import Person, PersonToAsk
from crushsite.client import transcript
from crushsite.client.screen import KeyTerminal, LineTerminal, Screen

HISTORY = 12  # messages that are shown at first
OUTPUT_LINES = 6
THOUGHT_CHARS = 200
PROMPT = "❯ "
KEYS = "Enter writes a prompt · Ctrl-C {act} · q leaves"


class Attached:
    def __init__(self, session: FoldedSession, terminal: KeyTerminal, lines: LineTerminal) -> None:
        self._session = session
        self._terminal = terminal
        self._screen = Screen(terminal, self._region)
        self._person = Person(terminal, self._screen.held)
        self._people = PersonToAsk(lines, self._screen.held)
        self._shown: dict[tuple[str, int], int] = {}  # how much of each text is finished lines
        self._begun: set[str] = set()  # replies whose first lines are shown
        self._changed = asyncio.Event()  # a request has come or is closed
        self._answered: set[str] = set()  # requests that were answered or left here
        self._typing: asyncio.Task[str] | None = None
        self._is_cancelling = False
        self._is_lost = False
        self._leaving = asyncio.Event()
        self._acts: set[asyncio.Task[None]] = set()

    async def run(self) -> bool:
        """Returns when the person leaves; whether something still runs. Raises ``CrushError``."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        following = asyncio.create_task(self._follow(), name="attached-items")
        typing = asyncio.create_task(self._read_keys(), name="attached-keys")
        leaving = asyncio.create_task(self._leaving.wait(), name="attached-leaving")
        tasks: set[asyncio.Task[Any]] = {following, typing, leaving}
        with self._screen.open():
            self._show_history()
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                loop.remove_signal_handler(signal.SIGINT)
        for task in done:
            task.result()
        return self._session.is_busy

    def _interrupt(self) -> None:
        if self._typing is not None:
            self._typing.cancel()
        elif self._session.is_busy and not self._is_cancelling:
            self._is_cancelling = True
            self._begin(self._session.cancel())
            self._note("cancelling; Ctrl-C again leaves")
        else:
            self._leaving.set()

    def _begin(self, work: Coroutine[Any, Any, object]) -> None:
        async def do() -> None:
            try:
                await work
            except CrushError as error:
                self._note(str(error), style="red")

        task = asyncio.create_task(do(), name="attached-act")
        self._acts.add(task)
        task.add_done_callback(self._acts.discard)

    # -- items

    async def _follow(self) -> None:
        async for item in self._session:
            self._take(item)
            self._changed.set()
            self._screen.soon()

    def _take(self, item: StreamItem) -> None:
        match item:
            case NewText():
                self._show_finished_blocks(item.message_id)
            case LogEvent():
                self._event(item.type, item.data)
            case StreamLost():
                if not self._is_lost:
                    self._note("the connection is lost; trying again")
                self._is_lost = True
            case StreamLive():
                if self._is_lost:
                    self._note("connected again")
                self._is_lost = False
            case StateReplaced():
                self._note("the session was changed; it is shown again")
                self._shown.clear()
                self._begun.clear()
                self._show_history()
            case MessageState():
                self._show_finished_blocks(str(item.message["id"]))
            case _:
                pass

    def _event(self, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "message.restarted":
            self._restart(data)
        elif kind.startswith("message.") and kind != "message.started":
            self._message(data["message"])
        elif kind == "run.finished":
            self._run_ended(data["run"])
        elif kind == "permission.resolved":
            self._answered.add(data["request_id"])
            word = "allowed" if data.get("granted") else "denied"
            self._note(f"{word}{_by(data.get('author') or data.get('answered_by'))}")
        elif kind == "question.resolved":
            self._answered.add(data["batch_id"])

    def _restart(self, data: Mapping[str, Any]) -> None:
        message_id = data["message"]["id"]
        for key in [key for key in self._shown if key[0] == message_id]:
            del self._shown[key]
        retry = data.get("retry")
        if retry is not None:
            words = f"retrying ({retry['attempt']} of {retry['attempts']}): {retry['reason']}"
            self._note(words, style="yellow")
        elif message_id in self._begun:
            self._note("the reply was interrupted and starts again", style="yellow")
        self._begun.discard(message_id)

    def _run_ended(self, run: Mapping[str, Any]) -> None:
        if not self._session.is_busy:
            self._is_cancelling = False
        if run["outcome"] == "completed":
            return
        words = f"{run['outcome']}{_by(run.get('cancelled_by'))}"
        if run.get("error"):
            words += f": {run['error']}"
        self._note(words, style="red" if run["outcome"] == "failed" else "yellow")

    # -- finished lines

    def _note(self, text: str, *, style: str = "dim") -> None:
        self._screen.print(Text(f"· {plain(text)}", style=style))

    def _show_history(self) -> None:
        messages = self._session.messages
        title = visible(str((self._session.session or {}).get("title") or "New session"))
        self._screen.print(Rule(Text(title, style="bold"), style="dim"))
        left = len(messages) - HISTORY
        if left > 0:
            self._note(f"{left:,} earlier message{'' if left == 1 else 's'}")
        for message in messages[-HISTORY:]:
            if message.is_open:
                self._show_finished_blocks(message.id)
            else:
                self._message(message.to_wire())

    def _message(self, message: Mapping[str, Any]) -> None:
        parts: list[RenderableType] = []
        if message["role"] == "user":
            command = list(transcript.shell_command(message))
            parts += command or [transcript.user_message(message)]
        elif message["role"] == "tool":
            parts += transcript.tool_results(message)
        elif message["role"] == "assistant":
            for index, part in enumerate(message["parts"]):
                if part["type"] == "text":
                    parts += self._rest_of(message["id"], index, part["data"].get("text", ""))
            parts += transcript.tool_calls(message)
            if (note := transcript.finish_note(message)) is not None:
                parts.append(note)
        if parts:
            self._screen.print(*parts)

    def _rest_of(self, message_id: str, index: int, text: str) -> list[RenderableType]:
        rest = text[self._shown.get((message_id, index), 0) :]
        self._shown[message_id, index] = len(text)
        return [self._block(message_id, rest)] if rest.strip() else []

    def _block(self, message_id: str, text: str) -> RenderableType:
        self._begun.add(message_id)
        return transcript.reply(text)

    def _show_finished_blocks(self, message_id: str) -> None:
        """Moves the complete blocks of an open reply from the region to the finished lines."""
        message = self._session.state.messages.get(message_id)
        if message is None or message.role != "assistant":
            return
        parts = message.parts
        for index, part in enumerate(parts):
            if part["type"] != "text":
                continue
            text, known = part["data"]["text"], self._shown.get((message_id, index), 0)
            is_last = index == len(parts) - 1
            if "\n" not in text[known:] and is_last:
                continue
            length = transcript.finished_length(text[known:]) if is_last else len(text) - known
            if length:
                self._shown[message_id, index] = known + length
                self._screen.print(self._block(message_id, text[known : known + length]))

    # -- the region

    def _region(self, width: int, height: int) -> Sequence[RenderableType]:
        parts: list[RenderableType] = []
        open_messages = [m for m in self._session.messages if m.is_open and m.role == "assistant"]
        for message in open_messages[-1:]:
            parts += self._open_reply(message)
        parts += transcript.outputs(
            self._session.state.outputs, lines=min(OUTPUT_LINES, max(height - 3, 1))
        )
        for run in self._session.queue[:3]:
            prompt = cut(plain(str(run.get("prompt", ""))), max(width - 12, 8))
            parts.append(Text(f"  waits: {prompt}", style="dim"))
        parts.append(self._status(width))
        return parts

    def _open_reply(self, message: FoldedMessage) -> list[RenderableType]:
        parts: list[RenderableType] = []
        wire = message.parts
        for index, part in enumerate(wire):
            if part["type"] == "text":
                rest = part["data"]["text"][self._shown.get((message.id, index), 0) :]
                if rest.strip():
                    parts.append(transcript.reply(rest))
            elif part["type"] == "reasoning" and index == len(wire) - 1:
                thought = cut(plain(part["data"]["thinking"][-THOUGHT_CHARS:]), THOUGHT_CHARS)
                parts.append(Text(f"thinking … {thought}", style="dim italic"))
        if wire and wire[-1]["type"] == "tool_call":
            parts += list(transcript.tool_calls({"parts": wire[-1:]}))
        return parts

    def _status(self, width: int) -> RenderableType:
        session = self._session
        if self._is_lost:
            state, style = "not connected", "bold red"
        elif session.permissions or session.questions:
            state, style = "waits for an answer", "bold yellow"
        elif self._is_cancelling:
            state, style = "cancelling", "bold yellow"
        elif session.is_busy:
            state, style = "working", "bold cyan"
        else:
            state, style = "idle", "bold green"
        act = "cancels" if session.is_busy and not self._is_cancelling else "leaves"
        keys = cut(KEYS.format(act=act), max(width - len(state) - 6, 1))
        return Text.assemble(("── ", "dim"), (state, style), (" ─ ", "dim"), (keys, "dim"))

    # -- keys and questions

    async def _read_keys(self) -> None:
        while True:
            self._changed.clear()
            if (asking := self._next_question()) is not None:
                await asking
                continue
            key = await self._key_or_change()
            if key is None:
                continue
            if key in {"", "q", "Q", "\x04"}:
                return
            if key in {"\r", "\n", "p"}:
                await self._write_prompt()

    async def _key_or_change(self) -> str | None:
        """The next key; ``None`` when a request may have come."""
        key = asyncio.create_task(self._terminal.key())
        change = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait({key, change}, return_when=asyncio.FIRST_COMPLETED)
            return key.result() if key.done() else None
        finally:
            key.cancel()
            change.cancel()
            await asyncio.gather(key, change, return_exceptions=True)

    def _next_question(self) -> Coroutine[Any, Any, None] | None:
        for request in self._session.permissions:
            if request["id"] not in self._answered:
                return self._while_open(request["id"], self._answer(request))
        for batch in self._session.questions:
            if batch["id"] not in self._answered:
                return self._while_open(batch["id"], self._survey(batch))
        return None

    async def _while_open(self, request_id: str, asking: Coroutine[Any, Any, None]) -> None:
        """Asks until the person answers, or another client does."""
        task = asyncio.create_task(asking)
        try:
            while not task.done():
                self._changed.clear()
                if request_id in self._answered:
                    return
                change = asyncio.create_task(self._changed.wait())
                await asyncio.wait({task, change}, return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
            task.result()
        except CrushError as error:
            self._note(f"the answer was not accepted: {error}", style="red")
        finally:
            self._answered.add(request_id)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _answer(self, request: Mapping[str, Any]) -> None:
        reply = await self._person.ask(question_of(request, is_earlier=False))
        folder = {"folder": reply.folder} if reply.folder else {}
        if not await self._session.answer(request["id"], reply.answer.value, **folder):
            self._note("another client answered first")

    async def _survey(self, batch: Mapping[str, Any]) -> None:
        responses = await self._people.survey(Survey(batch["id"], tuple(batch["questions"])))
        if responses is None:
            await self._session.dismiss_questions(batch["id"])
        else:
            await self._session.answer_questions(batch["id"], list(responses))

    async def _write_prompt(self) -> None:
        with self._screen.held():
            self._typing = asyncio.create_task(self._terminal.ask_line(PROMPT))
            try:
                text = await self._typing
            except asyncio.CancelledError:
                self._terminal.end_line()
                if not self._typing.cancelled():
                    raise  # we are cancelled, not the typing
                return
            finally:
                self._typing.cancel()
                self._typing = None
            self._screen.clear_typed(f"{PROMPT}{text}")  # it comes back as a message
        if text.strip():
            self._begin(self._session.prompt(text.rstrip("\n")))


def _by(author: Any) -> str:
    name = author.get("name") if isinstance(author, Mapping) else None
    return f" by {visible(str(name))}" if name else ""
