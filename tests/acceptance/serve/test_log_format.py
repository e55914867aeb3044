"""Logs as JSON, with the ids of runs."""

import asyncio
import json

from tests.acceptance.calling import eventually
from tests.acceptance.conversation import take_seat
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.serve.starting import Connect, MakeProject, MakeServer

PRINTED = ("Serving", "Working", "Monitored", "To sign in")


def records(server: Server) -> list[dict[str, str]]:
    lines = [line for process in server.processes() for line in process.log_text().splitlines()]
    return [json.loads(line) for line in lines if not line.startswith(PRINTED)]


async def test_each_line_is_json_and_names_its_run(
    make_a_server: MakeServer, shape: Shape, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(shape, env={"CRUSH_LOG_FORMAT": "json"})
    await asyncio.to_thread(server.start)
    seat = await take_seat(connect(server), project())
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, "[[n=2]]", "my-run")
    await seat.stream.run_complete(session, "my-run")

    def found(message: str) -> list[dict[str, str]]:
        return [record for record in records(server) if record["message"] == message]

    await eventually(lambda: bool(found("run finished: completed")), "the log has the end")
    (began,), (ended,) = found("run started"), found("run finished: completed")
    for record in (began, ended):
        assert record["run_id"] == "my-run"
        assert record["session"] == session
        assert record["workspace"] == seat.workspace.id
        assert record["run"].isdecimal()
