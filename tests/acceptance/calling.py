"""Prompts that make the scripted model call tools, and what came of the calls."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tests.acceptance.conversation import Seat
from tests.acceptance.harness.stream import Event


def call(name: str, **arguments: Any) -> str:
    """A prompt whose reply calls this tool once, and then says three words."""
    return f"[[tool={name} {json.dumps(arguments)}]] [[n=3]]"


def bash(command: str) -> str:
    return call("bash", command=command, description="test")


def write(name: str, content: str = "x") -> str:
    return call("write", file_path=name, content=content)


def agents(*prompts: str) -> str:
    """One reply that sends for an agent with each of these prompts."""
    calls = " ;; ".join(f"agent {_hidden(json.dumps({'prompt': prompt}))}" for prompt in prompts)
    return f"[[calls={calls}]] [[n=3]]"


def _hidden(document: str) -> str:
    """The same JSON, in which the model's own script sees no commands."""
    return document.replace("[", "\\u005b").replace("]", "\\u005d")


def results(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The data of every tool result, in order."""
    return [
        part["data"]
        for message in messages
        for part in message["parts"]
        if part["type"] == "tool_result"
    ]


async def run_call(seat: Seat, session: str, prompt: str) -> dict[str, Any]:
    """Prompts, waits for the end, and returns the newest tool result."""
    start = seat.stream.mark()
    await seat.workspace.prompt(session, prompt)
    complete = await seat.stream.run_complete(session, start=start)
    assert "error" not in complete, complete
    return results(await seat.workspace.messages(session))[-1]


def metadata_of(result: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(result["metadata"]))


async def permission_request(
    seat: Seat, session: str | None = None, *, start: int = 0
) -> dict[str, Any]:
    """The payload of the next permission request."""

    def fits(event: Event) -> bool:
        return event.type == "permission_request" and session in (None, event.session)

    return (await seat.stream.wait_for(fits, start=start)).payload


async def eventually(holds: Callable[[], bool], what: str, timeout: float = 60) -> None:
    """Until a condition outside of any stream holds."""
    try:
        async with asyncio.timeout(timeout):
            while not await asyncio.to_thread(holds):
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {timeout} s") from None


async def until(holds: Callable[[], Any], what: str, timeout: float = 60) -> Any:
    """Until an awaited condition holds; what it gave."""
    try:
        async with asyncio.timeout(timeout):
            while True:
                found = await holds()
                if found:
                    return found
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {timeout} s") from None
