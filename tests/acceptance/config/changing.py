"""How a test changes the configuration, and what clients and the model see of it."""

import uuid
from typing import Any

from tests.acceptance.conversation import Seat
from tests.acceptance.harness.model import ScriptedModel

SMALL = {"provider": "fake", "model": "fake-small"}


async def changed_config(seat: Seat, start: int = 0) -> dict[str, Any]:
    """The configuration after the next word that there is a new one."""
    event = await seat.stream.wait_for(lambda e: e.type == "config_changed", start=start)
    assert event.payload == {"workspace_id": seat.workspace.id}
    assert event.action == "updated"
    return await seat.workspace.config()


async def change(seat: Seat, name: str, **body: Any) -> None:
    answer = await seat.workspace.call("POST", f"/config/{name}", body)
    assert answer is None  # an empty body


async def model_that_answers(seat: Seat, model: ScriptedModel) -> str:
    """Prompts once; the model that the provider was asked for."""
    tag = uuid.uuid4().hex
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, f"{tag} [[n=2]]", tag)
    complete = await seat.stream.run_complete(session, tag)
    assert "error" not in complete, complete
    bodies = [model.request(entry["number"])["body"] for entry in model.served(tag)]
    return str(next(body["model"] for body in bodies if body.get("tools")))


def change_count(seat: Seat) -> int:
    return len(seat.stream.of("config_changed"))
