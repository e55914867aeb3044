"""What the tests of prompting and cancelling share: an attached client and what a session holds."""

from dataclasses import dataclass
from typing import Any

from tests.acceptance.harness.client import Client, Workspace
from tests.acceptance.harness.stream import EventStream, finish_reason

SLOW = "[[n=20000 d=20]]"  # goes on for minutes: whoever ends it was cancelled
SHORT = "[[n=5]]"


@dataclass
class Seat:
    """One attached client of one workspace."""

    workspace: Workspace
    stream: EventStream


async def take_seat(client: Client, path: Any, **options: Any) -> Seat:
    workspace = await client.workspace(path, **options)
    return Seat(workspace, await workspace.attach())


def roles_and_finishes(messages: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    return [(message["role"], finish_reason(message)) for message in messages]


def text_of(message: dict[str, Any]) -> str:
    return "".join(p["data"]["text"] for p in message["parts"] if p["type"] == "text")


CANCELLED_PAIR = [("user", "stop"), ("assistant", "canceled")]
