"""Clients change the configuration: every client is notified, and the next run uses it."""

import asyncio
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.config.changing import (
    SMALL,
    change,
    change_count,
    changed_config,
    model_that_answers,
)
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


async def refused(seat: Seat, name: str, body: Any) -> UnexpectedStatus:
    with pytest.raises(UnexpectedStatus) as refusal:
        await seat.workspace.call("POST", f"/config/{name}", body)
    return refusal.value


async def test_a_model_choice_is_announced_to_every_client_and_the_next_run_uses_it(
    server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project()
    first = await take_seat(connect(server), path)
    second = await take_seat(connect(server), path)
    assert await model_that_answers(first, model) == "fake-large"
    await change(first, "model", scope=1, model_type="large", model=SMALL)
    for seat in (first, second):
        config = await changed_config(seat)
        assert config["models"]["large"] == SMALL | {"max_tokens": 4096}
        assert config["recent_models"]["large"] == [SMALL]
    assert (await second.workspace.agent())["model"]["id"] == "fake-small"
    assert await model_that_answers(second, model) == "fake-small"


async def test_a_user_setting_reaches_every_open_workspace_and_a_workspace_setting_no_other(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(embedded_server)
    one = await take_seat(client, project("one"))
    two = await take_seat(client, project("two"))
    await change(one, "compact", scope=1, enabled=True)
    assert (await changed_config(one))["options"]["tui"]["compact_mode"] is True
    assert "compact_mode" not in (await two.workspace.config())["options"]["tui"]
    start = one.stream.mark()
    await change(one, "set", scope=0, key="options.debug", value=True)
    for seat, since in ((one, start), (two, 0)):
        assert (await changed_config(seat, since))["options"]["debug"] is True
    start = two.stream.mark()
    since = one.stream.mark()
    await change(one, "remove", scope=0, key="options.debug")
    for seat, mark in ((one, since), (two, start)):
        assert "debug" not in (await changed_config(seat, mark))["options"]
    # Each change was told once, to whom it concerned.
    assert (change_count(one), change_count(two)) == (3, 2)


async def test_setting_the_same_value_again_is_announced(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(embedded_server), project())
    for _ in range(2):
        start = seat.stream.mark()
        await change(seat, "set", scope=1, key="options.debug", value=True)
        await changed_config(seat, start)


async def test_changes_at_the_same_time_are_all_kept(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project()
    seats = [await take_seat(connect(embedded_server), path) for _ in range(4)]
    await asyncio.gather(
        *(
            change(
                seats[number % 4], "set", scope=number % 2, key=f"mcp.s{number}.url", value="$NO"
            )
            for number in range(60)
        )
    )
    config = await seats[0].workspace.config()
    assert set(config["mcp"]) == {f"s{number}" for number in range(60)}


async def test_a_key_is_used_and_shown_to_nobody(
    embedded_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    secret, token, header = (f"sk-{uuid.uuid4().hex}" for _ in range(3))
    path = project()
    config = json.loads((path / "crush.json").read_text())
    # A key is never sent to an address that the folder chose: here a client chooses it.
    chosen = config.pop("providers")["fake"]
    del chosen["api_key"]
    (path / "crush.json").write_text(json.dumps(config))
    seat = await take_seat(connect(embedded_server), path)
    await change(seat, "set", scope=1, key="providers.fake", value=chosen)
    answers: list[Any] = []

    async def sees(key: str) -> None:
        answers.append(await seat.workspace.config())
        tag = uuid.uuid4().hex
        session = await seat.workspace.session()
        await seat.workspace.prompt(session, tag, tag)
        answers.append(await seat.stream.run_complete(session, tag))
        sent = model.request(model.served(tag)[-1]["number"])
        assert f"Bearer {key}" in json.dumps(sent)

    provider_key = {"scope": 1, "provider_id": "fake"}
    await change(seat, "provider-key", **provider_key, kind="string", api_key=secret)
    await sees(secret)
    assert answers[0]["providers"]["fake"]["api_key"] == "********"
    oauth = {"access_token": token, "refresh_token": f"{token}-r", "expires_in": 9, "expires_at": 9}
    await change(seat, "provider-key", **provider_key, kind="oauth", api_key=oauth)
    await sees(token)
    value = {"Authorization": f"Bearer {header}"}
    await change(seat, "set", scope=1, key="providers.fake.extra_headers", value=value)
    answers.append(await seat.workspace.config())
    # What does not fit is refused without being repeated.
    for body in (
        {**provider_key, "kind": "string", "api_key": [secret]},
        {**provider_key, "kind": secret, "api_key": secret},
        {**provider_key, "kind": "oauth", "api_key": {"access_token": {"a": secret}}},
        {**provider_key, "kind": "string", "api_key": f"{secret}\n{secret}"},
    ):
        refusal = await refused(seat, "provider-key", body)
        assert refusal.status == 400
        answers.append(refusal.text)
    refusal = await refused(
        seat, "set", {"scope": 1, "key": "providers.fake.api_key", "value": {"x": secret}}
    )
    answers.append(refusal.text)
    answers += [event.payload for event in seat.stream.events]
    public = json.dumps(answers) + embedded_server.log_text()
    assert [s for s in (secret, token, header) if s in public] == []


async def test_asterisks_sent_back_do_not_replace_the_secret(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(embedded_server), project())
    shown = (await seat.workspace.config())["providers"]["fake"]
    assert shown["api_key"] == "********"
    refusal = await refused(seat, "set", {"scope": 1, "key": "providers.fake", "value": shown})
    assert refusal.status == 400


async def test_hostile_changes_are_refused_and_nothing_changes(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project()
    seat = await take_seat(connect(embedded_server), path)
    before = await seat.workspace.config()
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    bodies: list[tuple[str, Any]] = [
        ("set", {}),
        ("set", []),
        ("set", {"scope": 2, "key": "options.debug", "value": True}),
        ("set", {"scope": True, "key": "options.debug", "value": True}),
        ("set", {"scope": "1", "key": "options.debug", "value": True}),
        ("set", {"scope": 1, "key": "", "value": True}),
        ("set", {"scope": 1, "key": "a..b", "value": True}),
        ("set", {"scope": 1, "key": "x" * 5_000, "value": True}),
        ("set", {"scope": 1, "key": "options.debug"}),
        ("set", {"scope": 1, "key": "options.debug", "value": "yes"}),
        ("set", {"scope": 1, "key": "options.context_paths", "value": [deep]}),
        ("set", {"scope": 1, "key": "options.deep", "value": deep}),
        ("set", {"scope": 1, "key": "options.big", "value": [1] * 200_000}),
        ("set", {"scope": 1, "key": "options.debug.deeper", "value": 1}),
        ("remove", {"scope": 1}),
        ("remove", {"scope": 1, "key": 7}),
        ("model", {"scope": 1, "model_type": "medium", "model": SMALL}),
        ("model", {"scope": 1, "model_type": "large", "model": "fake-small"}),
        ("model", {"scope": 1, "model_type": "large", "model": {"model": "x"}}),
        ("compact", {"scope": 1, "enabled": "yes"}),
        ("provider-key", {"scope": 1, "provider_id": "", "kind": "string", "api_key": "k"}),
        ("provider-key", {"scope": 1, "provider_id": "a\nb", "kind": "string", "api_key": "k"}),
    ]
    await change(seat, "set", scope=1, key="options.debug", value=False)
    await changed_config(seat)
    for name, body in bodies:
        refusal = await refused(seat, name, body)
        assert refusal.status == 400, (name, str(body)[:80])
        assert 0 < len(refusal.message) < 300
    assert await seat.workspace.config() == {
        **before,
        "options": {**before["options"], "debug": False},
    }
    assert json.loads((path / ".crush" / "crush.json").read_text()) == {"options": {"debug": False}}
    assert change_count(seat) == 1
    # What is not known is kept: clients may be newer than the server.
    await change(seat, "set", scope=1, key="options.new_thing", value={"a": [1]})
    assert (await seat.workspace.config())["options"]["new_thing"] == {"a": [1]}


async def test_an_unknown_workspace_is_404_and_a_broken_stored_file_409(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(embedded_server)
    path = project()
    seat = await take_seat(client, path)
    body = {"scope": 1, "key": "options.debug", "value": True}
    await client.http.call("POST", "/v1/workspaces/unknown/config/set", body, expect=404)
    stored = path / ".crush" / "crush.json"
    stored.parent.mkdir(exist_ok=True)
    stored.write_text('{"options": {,}}')
    refusal = await refused(seat, "set", body)
    assert refusal.status == 409
    assert f"{stored}:1:14" in refusal.message
    assert stored.read_text() == '{"options": {,}}'


async def test_known_providers_come_with_windows_and_prices(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(embedded_server)
    seat = await take_seat(client, project())
    providers = {entry["id"]: entry for entry in await seat.workspace.call("GET", "/providers")}
    anthropic = providers["anthropic"]
    assert anthropic["api_key"] == "$ANTHROPIC_API_KEY"
    large = next(m for m in anthropic["models"] if m["id"] == anthropic["default_large_model_id"])
    assert large["context_window"] >= 200_000
    assert 0 < large["cost_per_1m_out_cached"] < large["cost_per_1m_in"] < large["cost_per_1m_out"]
    alone = await take_seat(client, project("alone", options={"disable_default_providers": True}))
    assert await alone.workspace.call("GET", "/providers") is None


async def test_tokens_that_cannot_be_renewed_are_reported_and_copilot_is_not_imported(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(embedded_server), project())
    refusal = await refused(seat, "refresh-oauth", {"scope": 1, "provider_id": "fake"})
    assert refusal.status == 400
    assert "log in again" in refusal.message
    answer = await seat.workspace.call("POST", "/config/import-copilot")
    assert answer == {"token": None, "success": False}
