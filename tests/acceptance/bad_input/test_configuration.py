"""A broken configuration is told, and the workspace opens with what is left."""

from itertools import chain

from tests.acceptance.bad_input.attacker import Connect, MakeProject
from tests.acceptance.conversation import SHORT, take_seat
from tests.acceptance.harness.shapes import Server
from tests.acceptance.watching import LogWatch


async def test_a_broken_configuration_is_reported_and_the_workspace_opens(
    still_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("broken")
    broken = path / "crush.json"
    broken.write_text('{\n  "options": {},\n  "providers": {,}\n}')
    log = LogWatch(still_server)
    seat = await take_seat(connect(still_server), path)
    where = f"{broken}:3:17"
    problems = seat.workspace.answer["config"]["problems"]
    assert any(problem.startswith(where) for problem in problems), problems
    assert (await seat.workspace.config())["problems"] == problems
    await seat.workspace.client.workspace(path)  # who comes next has it read anew
    reported = [[line for line in text.splitlines() if where in line] for text in log.texts()]
    # A worker reads the files too, sooner or later, and tells its own log.
    assert len(reported[0]) == 1, reported
    assert max(map(len, reported)) == 1, reported
    for line in chain.from_iterable(reported):
        assert " warning " in line
        assert f"workspace={seat.workspace.id}" in line
    # Nobody knows which model the file chooses: no other one answers in its place.
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, "hello", "fails")
    assert where in (await seat.stream.run_complete(session, "fails"))["error"]
    assert log.loud() == []


async def test_a_configuration_with_one_wrong_key_keeps_the_others(
    still_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("half", permissions={"allowed_tools": 7}, options={"disabled_tools": "bash"})
    log = LogWatch(still_server)
    seat = await take_seat(connect(still_server), path)
    problems = "\n".join(seat.workspace.answer["config"]["problems"])
    assert str(path / "crush.json") in problems
    assert "permissions.allowed_tools" in problems
    assert "options.disabled_tools" in problems
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, SHORT, "works")
    assert (await seat.stream.run_complete(session, "works"))["text"].startswith("word0")
    assert log.loud() == []
