"""A session as it is now: a snapshot, and the items of the stream folded into it. Pure.

Any item may come again; the state stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crushclient.items import LogEvent, MessageState, NewText, OutputSoFar, StreamItem
from crushclient.open_messages import OpenMessage

Json = Mapping[str, Any]

_RUN_STATES: Mapping[str, str] = {
    "run.accepted": "accepted",
    "run.started": "running",
    "run.resumed": "running",
    "run.parked": "parked",
    "run.folded": "finished",
    "run.finished": "finished",
}
_AT_WORK = frozenset({"running", "parked", "ready"})
FINISHED_KEPT = 100  # finished runs


class FoldedMessage:
    """A message with all the text that has come so far."""

    __slots__ = ("_message",)

    def __init__(self, number: int, message: Json) -> None:
        self._message = OpenMessage(number, message)

    @property
    def id(self) -> str:
        return self._message.id

    @property
    def role(self) -> str:
        return str(self._message.head.get("role", ""))

    @property
    def text(self) -> str:
        """The text for people, without reasoning and tool calls."""
        return self._joined("text")

    @property
    def reasoning(self) -> str:
        return self._joined("reasoning")

    @property
    def is_open(self) -> bool:
        """Whether the message is still being written."""
        return all(part.kind != "finish" for part in self._message.parts)

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The parts, as in events: each has a ``type`` and ``data``."""
        return [part.to_wire() for part in self._message.parts]

    def to_wire(self) -> dict[str, Any]:
        """The message, as in events."""
        return self._message.to_wire()

    def add(self, item: NewText) -> None:
        self._message.add(item.part, item.offset, item.text, item.header or item.kind)

    def _joined(self, kind: str) -> str:
        return "".join(part.text for part in self._message.parts if part.kind == kind)


class SessionState:
    """``number`` is that of the newest event that the state includes."""

    def __init__(self, session_id: str, snapshot: Json) -> None:
        self.session_id = session_id
        self.number = int(snapshot["number"])
        self.workspace: Json = snapshot["workspace"]
        self.session: Json | None = None  # ``None`` after it was deleted
        self.messages: dict[str, FoldedMessage] = {}
        self.runs: dict[int, Json] = {}  # by key; each with its ``state``
        self.permissions: dict[str, Json] = {}  # requests that wait for an answer, by id
        self.questions: dict[str, Json] = {}  # batches that wait for an answer, by id
        self.outputs: dict[str, str] = {}  # of running tools, by the id of their call
        self._parents: dict[str, str] = {}
        for session in snapshot["sessions"]:
            self._take_session(session)
        for message in snapshot.get("messages") or ():
            self.messages[message["id"]] = FoldedMessage(0, message)
        for run in snapshot.get("runs") or ():
            if run["session_id"] == session_id:
                self.runs[run["key"]] = run
        for request in snapshot.get("permissions") or ():
            if self._concerns(request["session_id"]):
                self.permissions[request["id"]] = request
        for batch in snapshot.get("questions") or ():
            if self._concerns(batch["session_id"]):
                self.questions[batch["id"]] = batch

    # -- views

    @property
    def is_busy(self) -> bool:
        return any(run["state"] != "finished" for run in self.runs.values())

    @property
    def queue(self) -> list[Json]:
        """The accepted prompts that wait for an earlier run, in order."""
        waiting = [run for run in self.runs.values() if run["state"] == "accepted"]
        waiting.sort(key=lambda run: int(run.get("accept_number", 0)))
        is_at_work = any(run["state"] in _AT_WORK for run in self.runs.values())
        return waiting if is_at_work else waiting[1:]

    def run_of(self, run_id: str) -> Json | None:
        """The run of a prompt, by the id that its sender chose."""
        return next((run for run in self.runs.values() if run.get("run_id") == run_id), None)

    # -- the fold

    def apply(self, item: StreamItem) -> bool:
        """Folds an item into the state; returns whether it concerns this session."""
        match item:
            case LogEvent():
                if item.number <= self.number:
                    return False
                self.number = item.number
                return self._event(item)
            case NewText():
                message = self.messages.get(item.message_id)
                if message is not None:
                    message.add(item)
                return item.session_id == self.session_id
            case MessageState():
                return self._take_message(item.number, item.message)
            case OutputSoFar():
                if item.session_id != self.session_id:
                    return False
                self.outputs[item.tool_call_id or item.message_id] = item.text
                return True
            case _:
                return True

    def _event(self, event: LogEvent) -> bool:
        data = event.data
        subject, _, verb = event.type.partition(".")
        match subject:
            case "workspace" if "workspace" in data:
                self.workspace = data["workspace"]
                return True
            case "session" if "session" in data:
                return self._take_session(data["session"], is_deleted=verb == "deleted")
            case "message" if "message" in data:
                return self._take_message(event.number, data["message"])
            case "run" if "run" in data:
                return self._take_run(event.type, data["run"])
            case "permission" if verb != "overdue":
                return self._take_permission(data)
            case "question" if verb != "overdue":
                return self._take_question(data)
            case _:
                pass
        session_id = data.get("session_id")
        return session_id is None or session_id == self.session_id

    def _take_session(self, session: Json, *, is_deleted: bool = False) -> bool:
        session_id = session["id"]
        if is_deleted:
            self._parents.pop(session_id, None)
        else:
            self._parents[session_id] = session.get("parent_session_id", "")
        if session_id != self.session_id:
            return self._concerns(session_id)
        self.session = None if is_deleted else session
        if is_deleted:
            for gone in (self.messages, self.runs, self.permissions, self.questions, self.outputs):
                gone.clear()
        return True

    def _take_message(self, number: int, message: Json) -> bool:
        if message["session_id"] != self.session_id:
            return False
        self.messages[message["id"]] = FoldedMessage(number, message)
        for part in message.get("parts") or ():
            if part["type"] == "tool_result":
                self.outputs.pop(part["data"].get("tool_call_id", ""), None)
            elif part["type"] == "finish":
                self.outputs.pop(message["id"], None)
        return True

    def _take_run(self, kind: str, run: Json) -> bool:
        if run["session_id"] != self.session_id:
            return False
        known = self.runs.get(run["key"], {})
        state = _RUN_STATES.get(kind) or run.get("state") or known.get("state", "accepted")
        self.runs[run["key"]] = {**known, **run, "state": state}
        finished = [key for key, each in self.runs.items() if each["state"] == "finished"]
        for key in finished[:-FINISHED_KEPT]:
            del self.runs[key]
        return True

    def _take_permission(self, data: Json) -> bool:
        request = data.get("request")
        if request is None:
            return self.permissions.pop(data["request_id"], None) is not None
        if not self._concerns(request["session_id"]):
            return False
        self.permissions[request["id"]] = request
        return True

    def _take_question(self, data: Json) -> bool:
        batch = data.get("batch")
        if batch is None:
            return self.questions.pop(data["batch_id"], None) is not None
        if not self._concerns(batch["session_id"]):
            return False
        self.questions[batch["id"]] = batch
        return True

    def _concerns(self, session_id: str) -> bool:
        """Whether it is the session, one that it started, or the workspace as a whole."""
        if not session_id:
            return True
        seen: set[str] = set()
        while session_id and session_id not in seen:
            if session_id == self.session_id:
                return True
            seen.add(session_id)
            session_id = self._parents.get(session_id, "")
        return False
