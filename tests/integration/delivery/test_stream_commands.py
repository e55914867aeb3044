from typing import Any

import pytest

from agents.api.stream_commands import COMMANDS
from agents.models import Run
from tests.integration.delivery.conftest import Site
from workspaces.access import OWNER, Caller, Identity, IdentityKind, MemberRole
from workspaces.actions.sessions import create_session
from workspaces.log.errors import (
    BadField,
    Forbidden,
    ForbiddenToTools,
    RunIdTaken,
    SessionBusy,
    SessionUnknown,
)
from workspaces.log.reader import read

ACTOR = Caller(OWNER).actor()


@pytest.fixture
async def session_id(site: Site) -> str:
    return str((await site.write(create_session, title="t"))["id"])


async def prompts_of(site: Site) -> list[str]:
    return await read(lambda: list(Run.objects.order_by("id").values_list("prompt", flat=True)))


async def test_a_prompt_is_accepted_once(site: Site, session_id: str) -> None:
    body = {"command": "prompt", "session_id": session_id, "text": "go", "run_id": "r1"}
    first = await COMMANDS["prompt"].run(site.workspace_id, body, ACTOR)
    assert await COMMANDS["prompt"].run(site.workspace_id, body, ACTOR) == first
    assert first == {"key": await read(lambda: Run.objects.get().pk)}
    assert await prompts_of(site) == ["go"]
    with pytest.raises(RunIdTaken):
        await COMMANDS["prompt"].run(site.workspace_id, {**body, "text": "another"}, ACTOR)


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
        await COMMANDS["prompt"].run(site.workspace_id, body, ACTOR)
    assert refusal.value.sentence == sentence
    assert await prompts_of(site) == []


async def test_a_prompt_has_a_strategy_and_options(site: Site, session_id: str) -> None:
    body = {"session_id": session_id, "text": "go"}
    await COMMANDS["prompt"].run(site.workspace_id, body, ACTOR)
    options = {"budget": {"steps": 2}}
    more = {"strategy": "interrupt", "priority": "scheduled", "options": options}
    reply = await COMMANDS["prompt"].run(site.workspace_id, body | more, ACTOR)
    row = await read(lambda: Run.objects.get(pk=reply["key"]))
    assert (row.strategy, row.options) == ("interrupt", options)
    assert row.is_scheduled
    assert (await read(lambda: Run.objects.get(pk=row.replaces))).outcome == "cancelled"
    with pytest.raises(SessionBusy):
        await COMMANDS["prompt"].run(site.workspace_id, body | {"strategy": "reject"}, ACTOR)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"strategy": "never"}, "strategy"),
        ({"priority": "high"}, "priority"),
        ({"options": 5}, "options"),
        ({"options": {"budget": {"steps": 0}}}, "options.budget.steps"),
        ({"strategy": "steer", "options": {"model": "small"}}, "options"),
    ],
)
async def test_a_wrong_choice_is_refused_by_its_field(
    site: Site, session_id: str, wrong: dict[str, Any], field: str
) -> None:
    body = {"session_id": session_id, "text": "go", **wrong}
    with pytest.raises(BadField, match=f"^{field}: "):
        await COMMANDS["prompt"].run(site.workspace_id, body, ACTOR)
    assert await prompts_of(site) == []


async def test_a_permission_mode_needs_its_right(site: Site, session_id: str) -> None:
    async def yes() -> bool:
        return True

    prompter = Identity(IdentityKind.USER, "ann", 7, roles={site.workspace_id: MemberRole.PROMPTER})
    check = COMMANDS["prompt"].check
    assert check is not None
    body = {"session_id": session_id, "text": "go", "options": {"permission_mode": "yolo"}}
    await check(Caller(OWNER), site.workspace_id, body)
    with pytest.raises(Forbidden):
        await check(Caller(prompter), site.workspace_id, body)
    for mode in ("yolo", "normal"):
        body["options"] = {"permission_mode": mode}
        with pytest.raises(ForbiddenToTools):
            await check(Caller(OWNER, is_tool=yes), site.workspace_id, body)


async def test_the_queue_is_changed_by_commands(site: Site, session_id: str) -> None:
    async def run(name: str, **fields: Any) -> Any:
        return await COMMANDS[name].run(site.workspace_id, fields, ACTOR)

    sent = {"session_id": session_id}
    keys = [(await run("prompt", text=text, run_id=text, **sent))["key"] for text in "abcd"]
    await run("reorder_queue", keys=[keys[3], keys[2]], **sent)
    await run("edit_queued", key=keys[2], text="changed")
    await run("remove_queued", key=keys[3])
    await run("steer_queued", key=keys[1])

    def waiting() -> list[str]:
        rows = Run.objects.filter(state="accepted").order_by("accept_number")
        return list(rows.values_list("prompt", flat=True))

    assert await read(waiting) == ["a", "b", "changed"]
    await run("cancel", key=keys[0])
    retry = await run("retry", key=keys[0], run_id="again")
    assert (await read(lambda: Run.objects.get(pk=retry["key"]))).retry_of == keys[0]
    for wrong in ({}, {"key": -1}, {"key": "x"}, {"key": 2**63}):
        with pytest.raises(BadField):
            await run("remove_queued", **wrong)
    with pytest.raises(BadField):
        await run("cancel")


async def test_a_prompt_without_a_text_is_refused(site: Site, session_id: str) -> None:
    with pytest.raises(BadField, match="text is required"):
        await COMMANDS["prompt"].run(site.workspace_id, {"session_id": session_id}, ACTOR)


async def test_a_cancel_ends_what_was_accepted(site: Site, session_id: str) -> None:
    body = {"session_id": session_id, "text": "go"}
    await COMMANDS["prompt"].run(site.workspace_id, body, ACTOR)
    assert (
        await COMMANDS["cancel"].run(site.workspace_id, {"session_id": session_id}, ACTOR) is None
    )
    assert await read(lambda: Run.objects.get().outcome) == "cancelled"


async def test_an_unknown_session_is_told(site: Site) -> None:
    for command in ("prompt", "cancel"):
        with pytest.raises(SessionUnknown):
            await COMMANDS[command].run(site.workspace_id, {"session_id": "x", "text": "go"}, ACTOR)


async def test_an_answer_says_whether_it_was_the_first(site: Site) -> None:
    body = {"request_id": "nothing", "answer": "allow"}
    assert await COMMANDS["answer"].run(site.workspace_id, body, ACTOR) == {"resolved": False}
    with pytest.raises(BadField, match="answer: must be one of allow, allow_session, deny"):
        await COMMANDS["answer"].run(site.workspace_id, {**body, "answer": "perhaps"}, ACTOR)
    with pytest.raises(BadField, match="request_id"):
        await COMMANDS["answer"].run(site.workspace_id, {"answer": "allow"}, ACTOR)


async def test_a_ping_is_answered(site: Site) -> None:
    assert await COMMANDS["ping"].run(site.workspace_id, {}, ACTOR) is None
