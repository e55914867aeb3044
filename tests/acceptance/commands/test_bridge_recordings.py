"""Recorded exchanges of the stock client, sent to a server and to the same server through a bridge.

`v1_recordings.jsonl` has one exchange a line: when in a conversation it happens, the request, and the
status, the type and the fields of its answer; then the fields of recorded events.
"""

import asyncio
import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.acceptance.commands.conftest import Clients, Elsewhere, Start
from tests.acceptance.conftest import MakeProject
from tests.acceptance.harness.client import Client, Workspace
from tests.acceptance.harness.stream import EventStream

Recorded = dict[str, Any]

RECORDED: list[Recorded] = [
    json.loads(line)
    for line in Path(__file__).with_name("v1_recordings.jsonl").read_text().splitlines()
]
WRITE = {"file_path": "made.txt", "content": "alpha\n"}
BUSY = f"[[tool=write {json.dumps(WRITE)}]]"
RUN = next(e["body"]["run_id"] for e in RECORDED if "run_id" in e.get("body", ()))


@dataclass
class Conversation:
    """A stock client with a project of its own."""

    client: Client
    folder: Path
    client_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    workspace_id: str = "unknown"
    session_id: str = "unknown"
    permission: Any = None
    stream: EventStream | None = None
    answers: list[Any] = field(default_factory=list)

    async def hold(self) -> None:
        """Sends all recorded requests, in an order in which a person could have caused them."""
        await self.send("start")
        await self.send("open")
        workspace = Workspace(self.client, self.workspace_id, self.client_id, {})
        self.stream = await workspace.attach()
        await self.send("empty")
        await workspace.prompt(self.session_id, BUSY)
        request = await self.stream.wait_for(lambda e: e.type == "permission_request")
        self.permission = request.payload
        await self.send("waiting")
        await self.stream.run_complete(self.session_id, RUN)
        async with asyncio.timeout(60):
            while (await workspace.agent_session(self.session_id))["is_busy"]:
                await asyncio.sleep(0.05)
        await self.send("done")
        await self.send("end")

    async def send(self, when: str) -> None:
        for recorded in RECORDED:
            if recorded["when"] == when:
                await self._send(recorded)

    async def _send(self, recorded: Recorded) -> None:
        path = recorded["path"].replace("{id}", self.workspace_id).replace("{sid}", self.session_id)
        path = path.replace("{client_id}", self.client_id)
        query = recorded.get("query", "").replace("{client_id}", self.client_id)
        body = self._filled(recorded.get("body"))
        request = self.client.http.session.request(
            recorded["method"], f"{self.client.http.url}{path}?{query}", data=body
        )
        async with request as answer:
            text = await answer.text()
            shown = (recorded["method"], path, text)
            assert answer.status == recorded["status"], shown
            assert answer.headers.get("Content-Type", "") == recorded["content_type"], shown
        content = json.loads(text) if text else None
        if recorded["content_type"] == "":
            assert text == "", shown
        if "fields" in recorded:
            assert sorted(first_of(content)) == recorded["fields"], shown
        if recorded["when"] == "open" and self.workspace_id == "unknown":
            self.workspace_id = content["id"]
        if recorded["path"].endswith("/sessions") and recorded["method"] == "POST":
            self.session_id = content["id"]
        self.answers.append([recorded["method"], recorded["path"], shape_of(content)])

    def _filled(self, body: Any) -> bytes | None:
        """Returns a recorded body with the ids of this conversation."""
        if not isinstance(body, dict):
            return body.encode() if body else None
        known = {
            "client_id": self.client_id,
            "session_id": self.session_id,
            "path": str(self.folder),
            "permission": self.permission,
        }
        is_refused = body.get("client_id") == "not-a-uuid" or body.get("action") == "maybe"
        changed = {} if is_refused else {name: known[name] for name in known if name in body}
        return json.dumps(body | changed).encode()


def first_of(content: Any) -> Any:
    """Returns an object, or the first one of a list."""
    return content[0] if isinstance(content, list) else content


def shape_of(content: Any) -> Any:
    """Returns JSON without its values."""
    match content:
        case dict():
            return {name: shape_of(value) for name, value in content.items()}
        case list():
            return [shape_of(value) for value in content]
        case _:
            return type(content).__name__


def shapes_of_events(stream: EventStream | None) -> dict[str, set[tuple[str, ...]]]:
    """Returns by type of event which fields it had."""
    assert stream is not None
    found: dict[str, set[tuple[str, ...]]] = {}
    for event in stream.events:
        if "is_summary_message" in event.payload or event.payload.get("type") == "summarize":
            continue  # nobody summarised while it was recorded
        found.setdefault(f"{event.type} {event.action}", set()).add(tuple(sorted(event.payload)))
    return found


def recorded_events() -> dict[str, set[tuple[str, ...]]]:
    found: dict[str, set[tuple[str, ...]]] = {}
    for recorded in RECORDED:
        if recorded["when"] == "event":
            name = f"{recorded['type']} {recorded['change']}"
            found.setdefault(name, set()).add(tuple(recorded["fields"]))
    # Only the run of a prompt with a `run_id` names it.
    ends = found["run_complete updated"]
    ends |= {tuple(name for name in fields if name != "run_id") for fields in ends}
    return found


async def test_recorded_requests_get_the_same_answers_through_a_bridge(
    elsewhere: Elsewhere, start_bridge: Start, clients: Clients, project: MakeProject
) -> None:
    elsewhere.login()
    _, host = await asyncio.to_thread(start_bridge)
    direct = clients(elsewhere.direct, token=elsewhere.token, tls=elsewhere.tls())
    plain = Conversation(direct, project("direct"))
    bridged = Conversation(clients(host), project("bridged"))
    await plain.hold()
    await bridged.hold()
    assert bridged.answers == plain.answers
    known = recorded_events()
    for conversation in (plain, bridged):
        events = shapes_of_events(conversation.stream)
        assert {"file created", "run_complete updated", "session updated"} <= events.keys()
        for name in events.keys() & known.keys():
            assert events[name] <= known[name], name
    assert shapes_of_events(bridged.stream).keys() == shapes_of_events(plain.stream).keys()
