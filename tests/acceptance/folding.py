"""Folds the native feed into state, and refuses whatever a lossless feed never sends.

Knows the feed's contract alone: gap-free numbers, deltas without a hole or a repeat, every open
message told again after a return. Knows no transport.
"""

import copy
from collections import Counter
from typing import Any, Self

Json = dict[str, Any]

_STARTING = ("message.started", "message.restarted")
_CLOSING = ("message.finished", "message.updated")


class Broken(AssertionError):
    """The feed lost, doubled or reordered something."""


class Fold:
    """One logical reader's state, through any number of connections."""

    def __init__(self, *, after: int = 0) -> None:
        self.number = after
        self.sessions: dict[str, Json] = {}
        self.messages: dict[str, Json] = {}  # in the order in which they began
        self.requests: dict[str, Json] = {}  # permission requests that wait for an answer
        self.batches: dict[str, Json] = {}  # question batches that wait for an answer
        self.accepted: dict[int, Json] = {}  # runs by key
        self.ends: list[Json] = []  # runs that finished, in order
        self.folded: Counter[int] = Counter()
        self.kinds: Counter[str] = Counter()
        self.is_live = False  # `stream.opened` came on this connection
        self.resume_at: int | None = None  # told to come back with this cursor
        self.deltas = 0
        self._open: dict[int, str] = {}  # messages on their way, by stream number
        self._shown: set[int] = set()  # those of them whose words so far are known here

    def fork(self) -> Self:
        """The same state for a second connection with the same cursor."""
        twin = copy.copy(self)
        for name in ("sessions", "requests", "batches", "accepted", "ends", "folded", "kinds"):
            setattr(twin, name, copy.copy(getattr(self, name)))
        twin._open, twin._shown = dict(self._open), set(self._shown)
        open_ids = set(self._open.values())
        twin.messages = {
            id: copy.deepcopy(message) if id in open_ids else message
            for id, message in self.messages.items()
        }
        return twin

    def returns(self) -> None:
        """A new connection begins, with the cursor `number`."""
        self.is_live = False
        self.resume_at = None
        self._shown = set()

    def take(self, item: Any) -> None:
        """One item of the feed: an event, a delta, or what streams say beside the log."""
        if isinstance(item, list):
            self._delta(item)
        elif "number" in item:
            self._event(item)
        else:
            self._control(item["type"], item["data"])

    # -- the log

    def _event(self, event: Json) -> None:
        if event["number"] != self.number + 1:
            raise Broken(f"after {self.number} came {event['number']}: {event}")
        self.number = event["number"]
        kind, data = event["type"], event["data"]
        self.kinds[kind] += 1
        match kind.split("."):
            case ["session", "deleted"]:
                self._forget_session(data["session"]["id"])
            case ["session", "rewound"]:
                for message_id in data["rewind"]["message_ids"]:
                    del self.messages[message_id]
            case ["session", _]:
                self.sessions[data["session"]["id"]] = data["session"]
            case ["message", _]:
                self._message(kind, data["message"])
            case ["run", _]:
                self._run(kind, data["run"])
            case ["permission", "requested"]:
                self.requests[data["request"]["id"]] = data["request"]
            case ["permission", "resolved"]:
                self.requests.pop(data["request_id"], None)
            case ["question", "asked"]:
                self.batches[data["batch"]["id"]] = data["batch"]
            case ["question", "resolved"]:
                self.batches.pop(data["batch_id"], None)

    def _message(self, kind: str, message: Json) -> None:
        exists = message["id"] in self.messages
        if exists == (kind in ("message.created", "message.started")):
            raise Broken(f"{kind} of a message that is {'known' if exists else 'unknown'}")
        if kind in _CLOSING:
            message = self._whole(message)
        if kind in _STARTING or kind in _CLOSING:
            for number in [n for n, id in self._open.items() if id == message["id"]]:
                del self._open[number]
        if kind in _STARTING:
            self._open[self.number] = message["id"]
            self._shown.add(self.number)
            message = copy.deepcopy(message)
        if kind in _CLOSING and exists:
            message = _with_streamed_text(message, self.messages[message["id"]])
        self.messages[message["id"]] = message

    def _whole(self, message: Json) -> Json:
        """With the words that were told as deltas: the end gives only their length."""
        earlier = self.messages[message["id"]]
        is_shown = any(id == message["id"] for n, id in self._open.items() if n in self._shown)
        parts = []
        for index, part in enumerate(message["parts"]):
            if "length" in part["data"]:
                if not is_shown or index >= len(earlier["parts"]):
                    raise Broken(f"an end without words that were never told: {message}")
                data, field = _streamed(earlier["parts"][index])
                rest = dict(part["data"])
                if len(data[field]) != rest.pop("length"):
                    raise Broken(f"{len(data[field])} letters are known of {message}")
                part = {"type": part["type"], "data": {**rest, field: data[field]}}
            parts.append(part)
        return {**message, "parts": parts}

    def _run(self, kind: str, run: Json) -> None:
        key = run["key"]
        if kind == "run.accepted":
            if key in self.accepted:
                raise Broken(f"run {key} was accepted twice")
            self.accepted[key] = run
        elif kind == "run.finished":
            self.ends.append(run)
        elif kind == "run.folded":
            self.folded[key] += 1

    def _forget_session(self, session_id: str) -> None:
        self.sessions.pop(session_id, None)
        deleted = {id for id, m in self.messages.items() if m["session_id"] == session_id}
        for message_id in deleted:
            del self.messages[message_id]
        self._open = {n: id for n, id in self._open.items() if id not in deleted}

    # -- words

    def _delta(self, delta: list[Any]) -> None:
        number, part, offset, text, *header = delta
        self.deltas += 1
        if number not in self._open or number not in self._shown:
            raise Broken(f"a delta of a message that is not open here: {delta}")
        parts = self.messages[self._open[number]]["parts"]
        if part == len(parts):
            if not header or offset:
                raise Broken(f"a part begins without a header or in its middle: {delta}")
            parts.append(_new_part(header[0]))
        elif header or part > len(parts):
            raise Broken(f"part {part} of {len(parts)}: {delta}")
        data, field = _streamed(parts[part])
        if len(data[field]) != offset:
            raise Broken(f"words at {offset} where {len(data[field])} are known: {delta}")
        if not (text or header):
            raise Broken(f"a delta that says nothing: {delta}")
        data[field] += text

    # -- beside the log

    def _control(self, kind: str, data: Json) -> None:
        match kind:
            case "message.progress":
                self._progress(data["number"], data["message"])
            case "stream.opened":
                if data["number"] != self.number or self.is_live:
                    raise Broken(f"opened at {data['number']}, known is {self.number}")
                if missing := set(self._open) - self._shown:
                    raise Broken(f"opened without telling of the open messages {missing}")
                self.is_live = True
            case "stream.resume":
                if data["after"] != self.number:
                    raise Broken(f"told to resume at {data['after']}, known is {self.number}")
                self.resume_at = data["after"]
            case "reply":
                pass
            case _:
                raise Broken(f"an unknown item {kind}")

    def _progress(self, number: int, message: Json) -> None:
        if self._open.get(number) != message["id"]:
            raise Broken(f"progress of message {message['id']}, which is not open as {number}")
        own_words, sent_words = _words(self.messages[message["id"]]), _words(message)
        # The row that it is told from may lag behind the words that were shown before.
        for own, sent in zip(own_words, sent_words, strict=False):
            if not (own.startswith(sent) or sent.startswith(own)):
                raise Broken(f"progress contradicts what was told: {own!r}, {sent!r}")
        self._shown.add(number)
        self.messages[message["id"]] = message

    # -- what it comes to

    def messages_of(self, session_id: str) -> list[Json]:
        return [m for m in self.messages.values() if m["session_id"] == session_id]

    def unfinished(self) -> list[int]:
        """The keys of the accepted runs that have not ended, in order."""
        ended = {run["key"] for run in self.ends} | set(self.folded)
        return [key for key in sorted(self.accepted) if key not in ended]

    def check_runs(self) -> None:
        """Each accepted run ended exactly once, or was folded exactly once; none else did."""
        ended = Counter(run["key"] for run in self.ends)
        for key, run in self.accepted.items():
            if ended[key] + self.folded[key] != 1:
                raise Broken(f"ended {ended[key]} times, folded {self.folded[key]}: {run}")
        if strangers := (set(ended) | set(self.folded)) - set(self.accepted):
            raise Broken(f"runs ended that were never accepted: {strangers}")
        last: Counter[str] = Counter()
        for run in self.ends:
            if run["accept_number"] < last[run["session_id"]]:
                raise Broken(f"run ended out of its turn: {run}")
            last[run["session_id"]] = run["accept_number"]


def differences(fold: Fold, snapshot: Json, session_id: str | None = None) -> list[str]:
    """How a snapshot at the fold's number differs from it; the messages are of one session."""
    found = []
    if fold.number != snapshot["number"]:
        found.append(f"number {fold.number} is not {snapshot['number']}")
    stored = {session["id"]: session for session in snapshot["sessions"]}
    found += _unlike("session", fold.sessions, stored)
    found += _unlike("request", fold.requests, {r["id"]: r for r in snapshot["permissions"]})
    found += _unlike("batch", fold.batches, {b["id"]: b for b in snapshot["questions"]})
    if fold.unfinished() != [run["key"] for run in snapshot["runs"]]:
        found.append(f"runs {fold.unfinished()} are not {snapshot['runs']}")
    if session_id is not None:
        folded = {m["id"]: m for m in fold.messages_of(session_id)}
        stored_messages = {m["id"]: m for m in snapshot["messages"]}
        found += _unlike("message", folded, stored_messages)
        if list(folded) != list(stored_messages):
            found.append(f"messages in another order in {session_id}")
    return found


def _unlike(what: str, folded: dict[str, Json], stored: dict[str, Json]) -> list[str]:
    return [
        f"{what} {id}: folded {folded.get(id)}, stored {stored.get(id)}"
        for id in {**folded, **stored}
        if folded.get(id) != stored.get(id)
    ]


def _new_part(header: Any) -> Json:
    if header == "text":
        return {"type": "text", "data": {"text": ""}}
    if header == "reasoning":
        return {"type": "reasoning", "data": {"thinking": "", "signature": ""}}
    return {
        "type": "tool_call",
        "data": {"id": header["id"], "name": header["name"], "input": ""},
    }


def _streamed(part: Json) -> tuple[Json, str]:
    fields = {"text": "text", "reasoning": "thinking", "tool_call": "input"}
    field = fields.get(part["type"])
    if field is None:
        raise Broken(f"words of a part that does not grow: {part}")
    return part["data"], field


def _with_streamed_text(message: Json, earlier: Json) -> Json:
    """The end of a message tells the length of words that came as deltas."""
    message = copy.deepcopy(message)
    for index, part in enumerate(message["parts"]):
        if "length" in part["data"]:
            data, field = _streamed(earlier["parts"][index])
            if len(data[field]) != part["data"].pop("length"):
                raise Broken(f"told of {part}, known is {data}")
            part["data"][field] = data[field]
    return message


def _words(message: Json) -> list[str]:
    words = []
    for part in message["parts"]:
        if part["type"] in ("text", "reasoning", "tool_call"):
            data, field = _streamed(part)
            words.append(data.get(field, ""))
        else:
            words.append("")
    return words
