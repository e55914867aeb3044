from typing import Any

import pytest

from agents.api.stream_commands import COMMANDS
from agents.models import Run
from tests.integration.streams.conftest import Site
from workspaces.actions.sessions import create_session
from workspaces.log.errors import BadField, RunIdTaken, SessionUnknown
from workspaces.log.reader import read


@pytest.fixture
async def session_id(site: Site) -> str:
    return str((await site.write(create_session, title="t"))["id"])


async def prompts_of(site: Site) -> list[str]:
    return await read(lambda: list(Run.objects.order_by("id").values_list("prompt", flat=True)))


async def test_a_prompt_is_accepted_once(site: Site, session_id: str) -> None:
    body = {"command": "prompt", "session_id": session_id, "text": "go", "run_id": "r1"}
    assert await COMMANDS["prompt"](site.workspace_id, body) is None
    assert await COMMANDS["prompt"](site.workspace_id, body) is None
    assert await prompts_of(site) == ["go"]
    with pytest.raises(RunIdTaken):
        await COMMANDS["prompt"](site.workspace_id, {**body, "text": "another"})


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"text": 5}, "text: must be a string"),
        ({"text": ""}, "prompt is empty"),
        ({"session_id": ""}, "session id is missing"),
        ({"session_id": ["x"]}, "session_id: must be a string"),
        ({"run_id": 5}, "run_id: must be a string"),
        ({"attachments": "x"}, "attachments: must be a list"),
        ({"attachments": [{"content": "?"}]}, "attachments[0].content: must be base64"),
    ],
)
async def test_a_wrong_prompt_is_refused_by_its_field(
    site: Site, session_id: str, wrong: dict[str, Any], sentence: str
) -> None:
    body = {"session_id": session_id, "text": "go", **wrong}
    with pytest.raises(BadField) as refusal:
        await COMMANDS["prompt"](site.workspace_id, body)
    assert refusal.value.sentence == sentence
    assert await prompts_of(site) == []


async def test_a_prompt_without_a_text_is_refused(site: Site, session_id: str) -> None:
    with pytest.raises(BadField, match="text is required"):
        await COMMANDS["prompt"](site.workspace_id, {"session_id": session_id})


async def test_a_cancel_ends_what_was_accepted(site: Site, session_id: str) -> None:
    body = {"session_id": session_id, "text": "go"}
    await COMMANDS["prompt"](site.workspace_id, body)
    assert await COMMANDS["cancel"](site.workspace_id, {"session_id": session_id}) is None
    assert await read(lambda: Run.objects.get().outcome) == "cancelled"


async def test_an_unknown_session_is_told(site: Site) -> None:
    for command in ("prompt", "cancel"):
        with pytest.raises(SessionUnknown):
            await COMMANDS[command](site.workspace_id, {"session_id": "x", "text": "go"})


async def test_an_answer_says_whether_it_was_the_first(site: Site) -> None:
    body = {"request_id": "nothing", "answer": "allow"}
    assert await COMMANDS["answer"](site.workspace_id, body) == {"resolved": False}
    with pytest.raises(BadField, match="answer: must be one of allow, allow_session, deny"):
        await COMMANDS["answer"](site.workspace_id, {**body, "answer": "perhaps"})
    with pytest.raises(BadField, match="request_id"):
        await COMMANDS["answer"](site.workspace_id, {"answer": "allow"})


async def test_a_ping_is_answered(site: Site) -> None:
    assert await COMMANDS["ping"](site.workspace_id, {}) is None
