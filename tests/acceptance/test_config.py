"""Clients change the configuration, files change under the server: everybody is told, no turn stops."""

import asyncio
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import until
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.project import configuration, write_whole
from tests.acceptance.harness.shapes import Server, Shape

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeServer = Callable[..., Server]
SMALL = {"provider": "fake", "model": "fake-small"}


async def told(seat: Seat, start: int = 0) -> dict[str, Any]:
    """The configuration after the next word that there is a new one."""
    event = await seat.stream.wait_for(lambda e: e.type == "config_changed", start=start)
    assert event.payload == {"workspace_id": seat.workspace.id}
    assert event.action == "updated"
    return await seat.workspace.config()


async def change(seat: Seat, name: str, **body: Any) -> None:
    answer = await seat.workspace.call("POST", f"/config/{name}", body)
    assert answer is None  # an empty body


async def refused(seat: Seat, name: str, body: Any) -> UnexpectedStatus:
    with pytest.raises(UnexpectedStatus) as refusal:
        await seat.workspace.call("POST", f"/config/{name}", body)
    return refusal.value


async def model_that_answers(seat: Seat, model: ScriptedModel) -> str:
    """Prompts once; the model that the provider was asked for."""
    tag = uuid.uuid4().hex
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, f"{tag} [[n=2]]", tag)
    complete = await seat.stream.run_complete(session, tag)
    assert "error" not in complete, complete
    bodies = [model.request(entry["number"])["body"] for entry in model.served(tag)]
    return str(next(body["model"] for body in bodies if body.get("tools")))


def changes_heard(seat: Seat) -> int:
    return len(seat.stream.of("config_changed"))


# --- what clients change


async def test_a_choice_is_told_to_every_client_and_the_next_run_uses_it(
    server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project()
    first = await take_seat(connect(server), path)
    second = await take_seat(connect(server), path)
    assert await model_that_answers(first, model) == "fake-large"
    await change(first, "model", scope=1, model_type="large", model=SMALL)
    for seat in (first, second):
        config = await told(seat)
        assert config["models"]["large"] == SMALL | {"max_tokens": 4096}
        assert config["recent_models"]["large"] == [SMALL]
    assert (await second.workspace.agent())["model"]["id"] == "fake-small"
    assert await model_that_answers(second, model) == "fake-small"


async def test_a_choice_for_the_user_reaches_every_open_workspace_and_one_for_a_workspace_no_other(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(embedded_server)
    one = await take_seat(client, project("one"))
    two = await take_seat(client, project("two"))
    await change(one, "compact", scope=1, enabled=True)
    assert (await told(one))["options"]["tui"]["compact_mode"] is True
    assert "compact_mode" not in (await two.workspace.config())["options"]["tui"]
    start = one.stream.mark()
    await change(one, "set", scope=0, key="options.debug", value=True)
    for seat, since in ((one, start), (two, 0)):
        assert (await told(seat, since))["options"]["debug"] is True
    start = two.stream.mark()
    since = one.stream.mark()
    await change(one, "remove", scope=0, key="options.debug")
    for seat, mark in ((one, since), (two, start)):
        assert "debug" not in (await told(seat, mark))["options"]
    # Each change was told once, to whom it concerned.
    assert (changes_heard(one), changes_heard(two)) == (3, 2)


async def test_the_same_value_again_is_told_all_the_same(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(embedded_server), project())
    for _ in range(2):
        start = seat.stream.mark()
        await change(seat, "set", scope=1, key="options.debug", value=True)
        await told(seat, start)


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
    heard = json.dumps(answers) + embedded_server.log_text()
    assert [s for s in (secret, token, header) if s in heard] == []


async def test_stars_that_come_back_do_not_take_the_secret_s_place(
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
    await told(seat)
    for name, body in bodies:
        refusal = await refused(seat, name, body)
        assert refusal.status == 400, (name, str(body)[:80])
        assert 0 < len(refusal.message) < 300
    assert await seat.workspace.config() == {
        **before,
        "options": {**before["options"], "debug": False},
    }
    assert json.loads((path / ".crush" / "crush.json").read_text()) == {"options": {"debug": False}}
    assert changes_heard(seat) == 1
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


async def test_tokens_that_cannot_be_made_new_are_told_and_copilot_is_not_imported(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(embedded_server), project())
    refusal = await refused(seat, "refresh-oauth", {"scope": 1, "provider_id": "fake"})
    assert refusal.status == 400
    assert "log in again" in refusal.message
    answer = await seat.workspace.call("POST", "/config/import-copilot")
    assert answer == {"token": None, "success": False}


async def test_a_model_is_told_the_files_of_its_user_of_the_folders_above_and_of_the_workspace(
    embedded_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project("repository/package")
    (path.parent / "AGENTS.md").write_text("word-of-the-repository")
    (path / "AGENTS.md").write_text("word-of-the-package " + "x" * 100_000 + " word-of-the-end")
    own = Path(embedded_server.env["HOME"], ".config/crush/CRUSH.md")
    own.parent.mkdir(parents=True)
    own.write_text("word-of-the-user")
    seat = await take_seat(connect(embedded_server), path)
    tag = uuid.uuid4().hex
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, tag, tag)
    await seat.stream.run_complete(session, tag)
    bodies = [model.request(entry["number"])["body"] for entry in model.served(tag)]
    told_to_it = json.dumps(next(body for body in bodies if body.get("tools")))
    places = [told_to_it.find(f"word-of-the-{w}") for w in ("user", "repository", "package")]
    assert -1 not in places
    assert places == sorted(places)
    assert "word-of-the-end" not in told_to_it


# --- files that change


async def test_a_changed_file_is_told_and_the_next_run_uses_it(
    server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project()
    seat = await take_seat(connect(server), path)
    assert await model_that_answers(seat, model) == "fake-large"
    config = configuration(model.base_url)
    config["models"]["large"] = SMALL
    seat.workspace.configure(config)
    assert (await told(seat))["models"]["large"] == SMALL | {"max_tokens": 4096}
    assert await model_that_answers(seat, model) == "fake-small"


@pytest.mark.parametrize(
    "how", ["made", "renamed into place", "removed", "in a new folder", "linked"]
)
async def test_every_kind_of_change_is_heard_without_being_asked_for(
    embedded_server: Server, connect: Connect, project: MakeProject, tmp_path: Path, how: str
) -> None:
    path = project("p", options={"debug": True})
    file, wanted = path / ".crush.json", {"options": {"initialize_as": "X.md"}}
    target = tmp_path / "dotfiles" / "project.json"
    target.parent.mkdir()
    if how == "linked":
        target.write_text("{}")
        file.symlink_to(target)
    seat = await take_seat(connect(embedded_server), path)
    match how:
        case "made":
            file.write_text(json.dumps(wanted))
        case "renamed into place":
            (path / "new").write_text(json.dumps(wanted))
            (path / "new").rename(file)
        case "linked":
            target.write_text(json.dumps(wanted))
        case "in a new folder":
            own = Path(embedded_server.env["HOME"], ".config/crush/crush.json")
            own.parent.mkdir(parents=True)
            own.write_text(json.dumps(wanted))
        case "removed":
            (path / "crush.json").unlink()
    await seat.stream.wait_for(lambda e: e.type == "config_changed")

    async def applies() -> bool:  # a new file may be seen before it has its content
        options = (await seat.workspace.config())["options"]
        if how == "removed":
            return "debug" not in options
        return bool(options.get("initialize_as") == "X.md")

    await until(applies, "the change applies")


@pytest.mark.server_env(CRUSH_POLL_CONFIG="1")
async def test_without_a_watch_of_the_kernel_files_are_looked_at(
    embedded_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(embedded_server), project())
    seat.workspace.configure(configuration(model.base_url, options={"debug": True}))
    assert (await told(seat))["options"]["debug"] is True


async def test_other_files_of_the_workspace_are_not_told(
    embedded_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project()
    seat = await take_seat(connect(embedded_server), path)
    for number in range(50):
        (path / f"{number}.json").write_text("{}")
    (path / "crush.json").touch()  # and neither is a file that says the same
    seat.workspace.configure(configuration(model.base_url, options={"debug": True}))
    await told(seat)
    assert changes_heard(seat) == 1


# --- files that are broken


async def test_a_broken_file_stops_nothing_and_what_it_said_holds(
    server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project()
    seat = await take_seat(connect(server), path)
    sound = (path / "crush.json").read_text()
    # A turn is in progress, one waits behind it, one begins afterwards.
    gate = model.new_gate()
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, f"[[gate={gate}]] [[n=2]]", "running")
    await seat.workspace.prompt(session, "[[n=2]]", "waiting")
    await model.wait_at_gate(gate)
    broken = sound.replace('"fake-large"\n    },', '"fake-large"\n    ')
    assert broken != sound
    write_whole(path / "crush.json", broken)
    config = await told(seat)
    (problem,) = config["problems"]
    line = broken[: broken.index('"small": {')].count("\n") + 1
    assert problem.startswith(f"{path / 'crush.json'}:{line}:")
    assert "comma" in problem
    assert "last valid content applies" in problem
    assert config["models"]["large"]["provider"] == "fake"
    model.open_gate(gate)
    for run in ("running", "waiting"):
        assert "error" not in await seat.stream.run_complete(session, run)
    assert await model_that_answers(seat, model) == "fake-large"
    # One who comes anew finds the same, and the log says it once.
    other = await take_seat(connect(server), path)
    assert (await other.workspace.config())["problems"] == [problem]
    start = seat.stream.mark()
    write_whole(path / "crush.json", sound)
    assert "problems" not in await told(seat, start)
    if server.shape is Shape.EMBEDDED:
        assert server.log_text().count(f"crush.json:{line}:") == 1


async def test_after_a_restart_with_a_broken_file_the_rest_is_used(
    make_a_server: MakeServer, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    server = make_a_server(Shape.EMBEDDED)
    await asyncio.to_thread(server.start)
    path = project()
    (path / ".crush.json").write_text('{"options": {"debug": true}')  # never was sound
    seat = await take_seat(connect(server), path)
    config = await seat.workspace.config()
    assert "the file is ignored" in config["problems"][0]
    assert await model_that_answers(seat, model) == "fake-large"
    await asyncio.to_thread(server.restart)
    again = await take_seat(connect(server), path)
    assert (await again.workspace.config())["problems"] == config["problems"]
    assert await model_that_answers(again, model) == "fake-large"
    write_whole(path / ".crush.json", '{"options": {"debug": true}}')
    mended = await told(again)
    assert "problems" not in mended
    assert mended["options"]["debug"] is True


async def test_a_file_that_is_emptied_says_what_it_said(
    embedded_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project()
    seat = await take_seat(connect(embedded_server), path)
    (path / "crush.json").write_text("")
    assert "empty" in (await told(seat))["problems"][0]
    assert await model_that_answers(seat, model) == "fake-large"
