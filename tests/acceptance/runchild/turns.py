"""What a foreign parent asks of a child that works, and what it hears."""

import json
from collections.abc import Callable

from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server
from tests.integration.fleet.children import ChildProcess, Json, Parent

KEY = "sk-parents-own"
TOKEN = "a token of some length for the fleet"
Spawn = Callable[..., ChildProcess]
Connect = Callable[[Server], Client]


def bash(command: str) -> str:
    return "[[tool=bash " + json.dumps({"command": command, "description": "Do it"}) + "]] [[n=2]]"


def events(frames: list[Json], kind: str) -> list[Json]:
    found = [frame["event"] for frame in frames if frame["kind"] == "event"]
    return [event for event in found if event["type"] == kind]


async def answered(parent: Parent, *, approved: bool) -> tuple[Json, list[Json]]:
    """The next question for permission, and what came after its answer."""
    request = await parent.until("approval_request")
    await parent.send({"kind": "approval_reply", "id": request["id"], "approved": approved})
    return request["body"], await parent.frames()


def last_request(model: ScriptedModel, mark: str) -> Json:
    """The newest one with this mark in its prompt: the model serves other tests as well."""
    return model.request(model.served(mark)[-1]["number"])
