"""Sessions that the tests of the console write themselves, and import through the REST interface."""

import json
from typing import Any

from playwright.async_api import Page

Json = dict[str, Any]


class Transcript:
    """Messages in order; a call of a tool is a message of the model and one of the tool.

    `children`: the sessions of its calls of agents, which `agent` adds.
    """

    def __init__(self, title: str, session: str = "s", parent: str = "") -> None:
        self.title = title
        self.session = session
        self.parent = parent
        self.created_at = 1_700_000_000
        self.children: list[Transcript] = []
        self.messages: list[Json] = []
        self.calls = 0

    def add(self, role: str, *parts: Json, **more: Any) -> None:
        number = len(self.messages)
        finish = {"type": "finish", "data": {"reason": "stop", "time": 1_700_000_000}}
        has_end = any(part["type"] == "finish" for part in parts)
        self.messages.append(
            {
                "id": self.message_id(number),
                "session_id": self.session,
                "role": role,
                "parts": [*parts, *([] if has_end else [finish])],
                "model": "scripted" if role == "assistant" else "",
                "created_at": 1_700_000_000 + number,
                "updated_at": 1_700_000_000 + number,
                **more,
            }
        )

    def message_id(self, number: int) -> str:
        return f"m{number}" if not self.parent else f"m{number}-{self.title}"

    def say(self, text: str) -> None:
        self.add("assistant", part("text", text=text))

    def call(self, name: str, arguments: object, content: str, **more: Any) -> None:
        self.calls += 1
        call_id = f"call-{self.calls}"
        given = arguments if isinstance(arguments, str) else json.dumps(arguments)
        metadata = json.dumps(more.pop("metadata")) if "metadata" in more else ""
        self.add("assistant", part("tool_call", id=call_id, name=name, input=given, finished=True))
        result = {"tool_call_id": call_id, "name": name, "content": content, "metadata": metadata}
        self.add("tool", part("tool_result", **{"is_error": False, **result, **more}))

    def agent(self, title: str) -> "Transcript":
        """Calls an agent; returns the transcript of its session."""
        call_message = self.message_id(len(self.messages))
        self.call("agent", {"prompt": title}, "Done.")
        child = Transcript(title, f"{call_message}$$call-{self.calls}", self.session)
        child.created_at += len(self.messages)
        self.children.append(child)
        return child

    def lines(self) -> str:
        rows = self.rows()
        sessions = [row for row in rows if row["type"] == "session"]
        end = {"type": "end", "sessions": len(sessions), "messages": len(rows) - len(sessions)}
        return "\n".join(json.dumps(row) for row in [*rows, end])

    def rows(self) -> list[Json]:
        session = {"id": self.session, "title": self.title, "created_at": self.created_at}
        if self.parent:
            session["parent_session_id"] = self.parent
        rows: list[Json] = [{"type": "session", "version": 1, "session": session}]
        rows += [{"type": "message", "message": message} for message in self.messages]
        return rows + [row for child in self.children for row in child.rows()]


def part(kind: str, **data: Any) -> Json:
    return {"type": kind, "data": data}


async def load(page: Page, workspace_id: str, transcript: Transcript) -> str:
    """Imports it as the person who is signed in, and opens its page."""
    session = await page.evaluate(
        """async ([address, body]) => {
            const answer = await fetch(address, {method: "POST", body});
            if (!answer.ok) throw new Error(await answer.text());
            return (await answer.json()).id;
        }""",
        [f"/api/workspaces/{workspace_id}/sessions/import", transcript.lines()],
    )
    await page.goto(f"/w/{workspace_id}/s/{session}")
    return str(session)
