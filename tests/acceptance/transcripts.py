"""What the scripted model was told, and turns that are held in a known place.

Requests are found by a mark in the newest prompt; requests for titles are left out.
"""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.harness.model import ScriptedModel

Json = dict[str, Any]


def requests_sent(model: ScriptedModel, mark: str) -> list[Json]:
    """The bodies of the requests whose newest prompt holds the mark, oldest first."""
    return [model.request(entry["number"])["body"] for entry in _entries(model, mark)]


def headers_sent(model: ScriptedModel, mark: str) -> list[dict[str, str]]:
    return [model.request(entry["number"])["headers"] for entry in _entries(model, mark)]


def request_times(model: ScriptedModel, mark: str) -> list[float]:
    return [entry["time"] for entry in _entries(model, mark)]


def _entries(model: ScriptedModel, mark: str) -> list[Json]:
    return [entry for entry in model.served(mark) if not entry["title"]]


def roles(body: Json) -> list[str]:
    """Without the system prompt."""
    return [message["role"] for message in body["messages"] if message["role"] != "system"]


def user_texts(body: Json) -> list[str]:
    """The texts of the user's turns; images as `<image>`."""
    return [_flat(message["content"]) for message in body["messages"] if message["role"] == "user"]


def tool_answers(body: Json) -> list[str]:
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


def _flat(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(item.get("text", "<image>") for item in content)


@dataclass
class BlockedTool:
    """A command that runs until it is let go. The workspace must not ask for permission."""

    folder: Path
    name: str = "held"

    @property
    def script(self) -> str:
        command = f"touch {self.name}.runs; until test -e {self.name}.go; do sleep 0.02; done"
        call = json.dumps({"command": command, "description": "wait"})
        return f"[[tool=bash {call}]]"

    async def wait(self) -> None:
        """Return when the command runs."""
        async with asyncio.timeout(60):
            while not (self.folder / f"{self.name}.runs").exists():
                await asyncio.sleep(0.01)

    def release(self) -> None:
        (self.folder / f"{self.name}.go").touch()
