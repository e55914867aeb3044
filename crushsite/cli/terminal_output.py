"""What appears on the terminal of a person who waits for one run.

Folds the native feed: each word is printed once as it comes, also when the feed was cut and goes
on from its cursor. The answer goes to standard output, everything about it to standard error, so
that a pipe gets the answer alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from django.core.management.base import OutputWrapper

from crushsite.cli.request_text import TRUST_TOOL, PermissionQuestion, question_of
from crushsite.cli.session import Item, Pending

LINE = 160
# What a call is about, by the argument that says it.
TELLING_ARGUMENTS = ("command", "file_path", "pattern", "path", "url", "prompt")


@dataclass(frozen=True, slots=True)
class Survey:
    """Questions of a tool that the run waits for. As clients draw them."""

    batch_id: str
    questions: tuple[Mapping[str, Any], ...]
    is_earlier: bool = False  # of a prompt that the session accepted before ours


@dataclass(frozen=True, slots=True)
class RequestClosed:
    """The question, or the batch of questions, is closed, by whomever."""

    request_id: str


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A worker has taken the run."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    outcome: str  # completed, cancelled, failed, interrupted
    error: str


@dataclass(frozen=True, slots=True)
class FeedOpened:
    """Live from here."""


@dataclass(frozen=True, slots=True)
class FeedTooSlow:
    """The feed ends; it goes on from the cursor."""


News = (
    PermissionQuestion
    | Survey
    | RequestClosed
    | RunStarted
    | RunEnded
    | FeedOpened
    | FeedTooSlow
    | None
)


@dataclass(slots=True)
class _OpenMessage:
    id: str
    said: dict[int, int] = field(default_factory=dict)  # characters told of each part
    kinds: dict[int, str] = field(default_factory=dict)
    inputs: dict[int, str] = field(default_factory=dict)  # of calls, as far as they have come


class TerminalOutput:
    def __init__(
        self,
        *,
        session_id: str,
        run_id: str,
        say: Callable[[str], None],
        note: Callable[[str], None],
    ) -> None:
        self.cursor: int | None = None
        self._session_id = session_id
        self._run_id = run_id
        self._say = say
        self._note = note
        self._is_ours = False  # between our run's beginning and its end
        self._open: dict[int, _OpenMessage] = {}
        self._line_is_open = False

    def take(self, item: Item) -> News:
        """Tells what is to be told; returns what somebody must act on."""
        if not isinstance(item, Mapping):
            self._words(item[0], item[1], item[2], item[3], item[4] if len(item) > 4 else None)
            return None
        kind, data = item["type"], item["data"]
        if kind == "stream.opened":
            self.cursor = max(self.cursor or 0, data["number"])
            return FeedOpened()
        if kind == "stream.resume":
            return FeedTooSlow()
        if kind == "message.progress":
            if data["number"] in self._open:
                self._rest_of(self._open[data["number"]], data["message"])
            return None
        number = item.get("number")
        if number is None:  # not in the log: tool.output, and whatever kinds later servers add
            return None
        if self.cursor is not None and number <= self.cursor:
            return None  # told before the feed was cut
        self.cursor = number
        if kind == "permission.resolved":  # also of an agent below: it may be one of ours
            return RequestClosed(data["request_id"])
        if self._session_id not in _sessions_of(data) and not _is_trust(data):
            return None
        return self._event(kind, number, data)

    def waiting(self, pending: Pending) -> list[PermissionQuestion | Survey]:
        """What the session waited for before our prompt was sent: it must be answered first."""
        return [
            *(
                question_of(request, is_earlier=True)
                for request in pending.permissions
                if self._session_id in _sessions_of({"request": request})
                or _is_trust({"request": request})
            ),
            *(
                _survey_of(batch, is_earlier=True)
                for batch in pending.questions
                if batch["session_id"] == self._session_id
            ),
        ]

    def _event(self, kind: str, number: int, data: Mapping[str, Any]) -> News:
        if kind == "run.started" and data["run"].get("run_id") == self._run_id:
            self._is_ours = True
            return RunStarted()
        elif kind == "run.finished" and data["run"].get("run_id") == self._run_id:
            self._end_line()
            return RunEnded(data["run"]["outcome"], data["run"].get("error", ""))
        elif kind == "permission.requested":
            return question_of(data["request"], is_earlier=not self._is_ours)
        elif kind == "question.asked":
            return _survey_of(data["batch"], is_earlier=not self._is_ours)
        elif kind == "question.resolved":
            return RequestClosed(data["batch_id"])
        elif kind == "mcp.awaited" and self._is_ours:
            names = ", ".join(data["servers"])
            self._tell_note(f"MCP servers still starting: {names}; their tools join later")
        elif kind.startswith("message.") and self._is_ours:
            self._message(kind, number, data["message"])
            if "retry" in data:
                self._tell_note(_retry_line(data["retry"]))
        return None

    def _message(self, kind: str, number: int, message: Mapping[str, Any]) -> None:
        if message["role"] == "tool":
            self._results(message)
        if message["role"] != "assistant":
            return
        if kind in {"message.started", "message.restarted"}:
            if self._forget(message["id"]) is not None and self._line_is_open:
                self._tell_note("the model's answer broke off; it begins again")
            self._open[number] = _OpenMessage(message["id"])
        elif kind in {"message.finished", "message.created"}:
            known = self._forget(message["id"]) or _OpenMessage(message["id"])
            self._rest_of(known, message)
            self._end_line()
            self._calls(known, message)

    def _forget(self, message_id: str) -> _OpenMessage | None:
        for number, known in list(self._open.items()):
            if known.id == message_id:
                return self._open.pop(number)
        return None

    def _words(self, number: int, part: int, offset: int, text: str, header: object) -> None:
        known = self._open.get(number)
        if known is None:
            return
        if header is not None:
            known.kinds[part] = header if isinstance(header, str) else "tool_call"
        kind = known.kinds.get(part, "text")
        if kind == "text":
            self._tell(known, part, offset, text)
        elif kind == "tool_call":
            known.inputs[part] = known.inputs.get(part, "")[:offset] + text

    def _rest_of(self, known: _OpenMessage, message: Mapping[str, Any]) -> None:
        for index, part in enumerate(message["parts"]):
            known.kinds.setdefault(index, part["type"])
            # A part that ends as its words came says only how long it is.
            if part["type"] == "text" and "text" in part["data"]:
                self._tell(known, index, 0, part["data"]["text"])
            elif part["type"] == "tool_call" and "input" in part["data"]:
                known.inputs[index] = part["data"]["input"]

    def _tell(self, known: _OpenMessage, part: int, offset: int, text: str) -> None:
        said = known.said.get(part, 0)
        new = text[max(said - offset, 0) :]
        if not new:
            return
        if part not in known.said:
            self._end_line()  # a part begins on a line of its own
        known.said[part] = offset + len(text)
        self._say(new)
        self._line_is_open = not new.endswith("\n")

    def _calls(self, known: _OpenMessage, message: Mapping[str, Any]) -> None:
        for index, part in enumerate(message["parts"]):
            if part["type"] == "tool_call":
                about = _about(known.inputs.get(index, ""))
                self._tell_note(f"→ {part['data']['name']} {about}".rstrip())

    def _results(self, message: Mapping[str, Any]) -> None:
        for part in message["parts"]:
            if part["type"] == "tool_result":
                result = part["data"]
                mark = "✗" if result.get("is_error") else "←"
                self._tell_note(f"{mark} {_line(result.get('content', ''))}".rstrip())

    def _tell_note(self, text: str) -> None:
        self._end_line()
        self._note(f"{text}\n")

    def _end_line(self) -> None:
        if self._line_is_open:
            self._say("\n")
            self._line_is_open = False


def _retry_line(retry: Mapping[str, Any]) -> str:
    seconds = f"{retry['delay_seconds']:g} s"
    return f"retrying ({retry['attempt']} of {retry['attempts']}) in {seconds}: {_line(retry['reason'])}"


def _is_trust(data: Mapping[str, Any]) -> bool:
    """Of the folder, so of every session in it."""
    return "request" in data and data["request"]["tool_name"] == TRUST_TOOL


def _sessions_of(data: Mapping[str, Any]) -> set[str]:
    """Whose event it is: an agent's question is also of the sessions above its own."""
    for name in ("message", "run", "request", "batch"):
        if name in data:
            above = data[name].get("agent_path") or () if name == "request" else ()
            return {data[name]["session_id"], *(step["session_id"] for step in above)}
    return {str(data.get("session_id", ""))}


def _survey_of(batch: Mapping[str, Any], *, is_earlier: bool) -> Survey:
    return Survey(batch["id"], tuple(batch["questions"]), is_earlier)


def summary_of(question: PermissionQuestion) -> str:
    """A permission request on one line, for whoever does not have to answer it."""
    about = _about(question.params) or _line(question.description)
    said = f"{question.tool} wants to {question.action} in {question.path}"
    return plain(f"{said}: {about}" if about else said)


def _about(arguments: Any) -> str:
    """The one argument that tells what a call does, as one line."""
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return _line(arguments)
    if not isinstance(arguments, Mapping):
        return ""
    for name in TELLING_ARGUMENTS:
        if arguments.get(name):
            return _line(str(arguments[name]))
    return _line(orjson.dumps(arguments).decode()) if arguments else ""


def _line(text: str) -> str:
    """The first line, bounded, with nothing in it that steers a terminal."""
    lines = text.strip().splitlines()
    first = plain("".join(lines[:1]))
    if len(first) > LINE:
        return first[: LINE - 1] + "…"
    left = len(lines) - 1
    return f"{first} … {left} more line{'' if left == 1 else 's'}" if left else first


def plain(text: str) -> str:
    """A model's words on a terminal are words: no escape may move its cursor or name its window."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)


class CommandOutput:
    def __init__(self, out: OutputWrapper, err: OutputWrapper) -> None:
        self._out = out
        self._err = err
        self._held: list[Callable[[], None]] | None = None

    def say(self, text: str) -> None:
        """Words of the answer."""
        self._print(lambda: _write(self._out, plain(text) if self._out.isatty() else text))

    def note(self, text: str) -> None:
        """Words about it."""
        self._print(lambda: _write(self._err, text))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps everything back until the end, in order. Not nested."""
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            for printing in held:
                printing()

    def _print(self, printing: Callable[[], None]) -> None:
        if self._held is None:
            printing()
        else:
            self._held.append(printing)


def _write(to: OutputWrapper, text: str) -> None:
    to.write(text, style_func=str, ending="")  # no alarm: it is not an error
    to.flush()
