"""The output of one run on the user's terminal.

Reads the native feed and prints each piece of text once, also after a reconnect at the cursor. The
answer goes to standard output and everything else to standard error, so that a pipe receives only
the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from django.core.management.base import OutputWrapper

from crushsite.cli.request_text import TRUST_TOOL, PermissionQuestion, question_of
from crushsite.cli.session import Item, Pending
from workspaces.delivery.open_message import Applied, LiveMessage, OpenMessages
from workspaces.log.types import Delta

LINE = 160
# The arguments that describe a call best, in order of preference.
SUMMARY_ARGUMENTS = ("command", "file_path", "pattern", "path", "url", "prompt")


@dataclass(frozen=True, slots=True)
class Survey:
    """A batch of questions from a tool, for which the run waits, as clients display it."""

    batch_id: str
    questions: tuple[Mapping[str, Any], ...]
    is_earlier: bool = False  # from a prompt that the session accepted before ours


@dataclass(frozen=True, slots=True)
class RequestClosed:
    """A permission request or a batch of questions is closed, no matter by which client."""

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
    """The feed is live from here on."""


@dataclass(frozen=True, slots=True)
class FeedTooSlow:
    """The feed ended because we read too slowly; it resumes at the cursor."""


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
        self._is_ours = False  # our run has started
        self._open = OpenMessages()
        self._line_is_open = False

    def take(self, item: Item) -> News:
        """Prints the item; returns what the caller must act on, if anything."""
        if not isinstance(item, Mapping):
            self._delta(Delta(*item))
            return None
        kind, data = item["type"], item["data"]
        if kind == "stream.opened":
            self.cursor = max(self.cursor or 0, data["number"])
            return FeedOpened()
        if kind == "stream.resume":
            return FeedTooSlow()
        if kind == "message.progress":
            if (known := self._open.get(data["number"])) is not None:
                self._print(known, known.catch_up(data["message"]["parts"]))
            return None
        number = item.get("number")
        if number is None:  # not in the log: tool.output, and kinds that later servers may add
            return None
        if self.cursor is not None and number <= self.cursor:
            return None  # printed before the reconnect
        self.cursor = number
        if kind == "permission.resolved":  # also of a sub-agent: it may be a request of ours
            return RequestClosed(data["request_id"])
        if self._session_id not in _sessions_of(data) and not _is_trust(data):
            return None
        return self._event(kind, number, data)

    def concerns(self, item: Item) -> bool:
        """Whether an item is about the session, and was not taken before."""
        if not isinstance(item, Mapping):
            return self._open.get(item[0]) is not None
        number = item.get("number")
        if number is not None and self.cursor is not None and number <= self.cursor:
            return False
        return self._session_id in _sessions_of(item["data"])

    def waiting(self, pending: Pending) -> list[PermissionQuestion | Survey]:
        """Returns the requests that were open before our prompt and must be answered first."""
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
            self._print_note(
                f"MCP servers still starting: {names}; their tools are added when they are ready"
            )
        elif kind.startswith("message.") and self._is_ours:
            self._message(kind, number, data["message"])
            if "retry" in data:
                self._print_note(_retry_line(data["retry"]))
        return None

    def _message(self, kind: str, number: int, message: Mapping[str, Any]) -> None:
        if message["role"] == "tool":
            self._results(message)
        if message["role"] != "assistant":
            return
        if kind in {"message.started", "message.restarted"}:
            if self._open.close(message["id"]) is not None and self._line_is_open:
                self._print_note("the model's answer was interrupted and starts again")
            self._open[number] = LiveMessage(number, {**message, "parts": []})
        elif kind in {"message.finished", "message.created"}:
            known = self._open.close(message["id"]) or LiveMessage(number, {**message, "parts": []})
            self._print(known, known.catch_up(message["parts"]))
            self._end_line()
            self._calls(known, message)

    def _delta(self, delta: Delta) -> None:
        known = self._open.get(delta.number)
        if known is None:
            return
        outcome, new = known.apply(delta)
        if outcome is Applied.NEW:
            self._print(known, [new])

    def _print(self, known: LiveMessage, deltas: Iterable[Delta]) -> None:
        for delta in deltas:
            if known.parts[delta.part].header != "text" or not delta.text:
                continue
            if delta.offset == 0:
                self._end_line()  # each part begins on a new line
            self._say(delta.text)
            self._line_is_open = not delta.text.endswith("\n")

    def _calls(self, known: LiveMessage, message: Mapping[str, Any]) -> None:
        for index, part in enumerate(message["parts"]):
            if part["type"] == "tool_call":
                about = summary_line(part["data"].get("input", known.parts[index].text()))
                self._print_note(f"→ {part['data']['name']} {about}".rstrip())

    def _results(self, message: Mapping[str, Any]) -> None:
        for part in message["parts"]:
            if part["type"] == "tool_result":
                result = part["data"]
                mark = "✗" if result.get("is_error") else "←"
                self._print_note(f"{mark} {_line(result.get('content', ''))}".rstrip())

    def _print_note(self, text: str) -> None:
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
    """Whether the event is a trust request, which concerns every session in the folder."""
    return "request" in data and data["request"]["tool_name"] == TRUST_TOOL


def _sessions_of(data: Mapping[str, Any]) -> set[str]:
    """The sessions of an event; a sub-agent's request also belongs to its parent sessions."""
    for name in ("message", "run", "request", "batch"):
        if name in data:
            above = data[name].get("agent_path") or () if name == "request" else ()
            return {data[name]["session_id"], *(step["session_id"] for step in above)}
    return {str(data.get("session_id", ""))}


def _survey_of(batch: Mapping[str, Any], *, is_earlier: bool) -> Survey:
    return Survey(batch["id"], tuple(batch["questions"]), is_earlier)


def summary_of(question: PermissionQuestion) -> str:
    """A permission request on one line, for notes that need no answer."""
    about = summary_line(question.params) or _line(question.description)
    summary = f"{question.tool} wants to {question.action} in {question.path}"
    return plain(f"{summary}: {about}" if about else summary)


def summary_line(arguments: Any) -> str:
    """The argument that describes a call best, on one line."""
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return _line(arguments)
    if not isinstance(arguments, Mapping):
        return ""
    for name in SUMMARY_ARGUMENTS:
        if arguments.get(name):
            return _line(str(arguments[name]))
    return _line(orjson.dumps(arguments).decode()) if arguments else ""


def _line(text: str) -> str:
    """The first line, shortened, without control characters."""
    lines = text.strip().splitlines()
    first = plain("".join(lines[:1]))
    if len(first) > LINE:
        return first[: LINE - 1] + "…"
    left = len(lines) - 1
    return f"{first} … {left} more line{'' if left == 1 else 's'}" if left else first


def plain(text: str) -> str:
    """Replaces control characters: a model must not move the cursor or rename the window."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)


class CommandOutput:
    def __init__(self, out: OutputWrapper, err: OutputWrapper) -> None:
        self._out = out
        self._err = err
        self._held: list[Callable[[], None]] | None = None

    def say(self, text: str) -> None:
        """Prints text of the answer."""
        self._print(lambda: _write(self._out, plain(text) if self._out.isatty() else text))

    def note(self, text: str) -> None:
        """Prints a message about the run."""
        self._print(lambda: _write(self._err, text))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds output back and prints it in order at the end. Must not be nested."""
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
    to.write(text, style_func=str, ending="")  # no error colour: it is not an error
    to.flush()
