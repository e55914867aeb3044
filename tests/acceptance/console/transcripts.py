"""Sessions that the tests of the console write themselves, and import through the REST interface."""

import json
from typing import Any

from playwright.async_api import Page

Json = dict[str, Any]


class Transcript:
    """Messages in order; a call of a tool is a message of the model and one of the tool."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.messages: list[Json] = []
        self.calls = 0

    def add(self, role: str, *parts: Json, **more: Any) -> None:
        number = len(self.messages)
        finish = {"type": "finish", "data": {"reason": "stop", "time": 1_700_000_000}}
        has_end = any(part["type"] == "finish" for part in parts)
        self.messages.append(
            {
                "id": f"m{number}",
                "session_id": "s",
                "role": role,
                "parts": [*parts, *([] if has_end else [finish])],
                "model": "scripted" if role == "assistant" else "",
                "created_at": 1_700_000_000 + number,
                "updated_at": 1_700_000_000 + number,
                **more,
            }
        )

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

    def lines(self) -> str:
        session = {"id": "s", "title": self.title, "created_at": 1_700_000_000}
        rows: list[Json] = [{"type": "session", "version": 1, "session": session}]
        rows += [{"type": "message", "message": message} for message in self.messages]
        rows.append({"type": "end", "sessions": 1, "messages": len(self.messages)})
        return "\n".join(json.dumps(row) for row in rows)


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
