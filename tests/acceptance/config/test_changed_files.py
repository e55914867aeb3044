"""Configuration files change or break while the server runs: no turn stops."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.calling import until
from tests.acceptance.config.changing import SMALL, change_count, changed_config, model_that_answers
from tests.acceptance.conversation import take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.project import configuration, write_whole
from tests.acceptance.harness.shapes import Server, Shape

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeServer = Callable[..., Server]


async def test_a_changed_file_is_announced_and_the_next_run_uses_it(
    server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project()
    seat = await take_seat(connect(server), path)
    assert await model_that_answers(seat, model) == "fake-large"
    config = configuration(model.base_url)
    config["models"]["large"] = SMALL
    seat.workspace.configure(config)
    assert (await changed_config(seat))["models"]["large"] == SMALL | {"max_tokens": 4096}
    assert await model_that_answers(seat, model) == "fake-small"


@pytest.mark.parametrize(
    "how", ["made", "renamed into place", "removed", "in a new folder", "linked"]
)
async def test_every_kind_of_file_change_is_noticed_without_a_request(
    embedded_server: Server, connect: Connect, project: MakeProject, tmp_path: Path, how: str
) -> None:
    path = project("p", options={"debug": True})
    file, content = path / ".crush.json", {"options": {"initialize_as": "X.md"}}
    target = tmp_path / "dotfiles" / "project.json"
    target.parent.mkdir()
    if how == "linked":
        target.write_text("{}")
        file.symlink_to(target)
    seat = await take_seat(connect(embedded_server), path)
    match how:
        case "made":
            file.write_text(json.dumps(content))
        case "renamed into place":
            (path / "new").write_text(json.dumps(content))
            (path / "new").rename(file)
        case "linked":
            target.write_text(json.dumps(content))
        case "in a new folder":
            own = Path(embedded_server.env["HOME"], ".config/crush/crush.json")
            own.parent.mkdir(parents=True)
            own.write_text(json.dumps(content))
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
async def test_without_kernel_notifications_files_are_polled(
    embedded_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(embedded_server), project())
    seat.workspace.configure(configuration(model.base_url, options={"debug": True}))
    assert (await changed_config(seat))["options"]["debug"] is True


async def test_other_files_of_the_workspace_cause_no_event(
    embedded_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project()
    seat = await take_seat(connect(embedded_server), path)
    for number in range(50):
        (path / f"{number}.json").write_text("{}")
    (path / "crush.json").touch()  # and neither is a file that says the same
    seat.workspace.configure(configuration(model.base_url, options={"debug": True}))
    await changed_config(seat)
    assert change_count(seat) == 1


async def test_a_broken_file_stops_nothing_and_its_last_valid_content_applies(
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
    config = await changed_config(seat)
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
    assert "problems" not in await changed_config(seat, start)
    if server.shape is Shape.EMBEDDED:
        assert server.log_text().count(f"crush.json:{line}:") == 1


async def test_after_a_restart_with_a_broken_file_the_other_files_apply(
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
    repaired = await changed_config(again)
    assert "problems" not in repaired
    assert repaired["options"]["debug"] is True


async def test_an_emptied_file_keeps_its_last_valid_content(
    embedded_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project()
    seat = await take_seat(connect(embedded_server), path)
    (path / "crush.json").write_text("")
    assert "empty" in (await changed_config(seat))["problems"][0]
    assert await model_that_answers(seat, model) == "fake-large"
