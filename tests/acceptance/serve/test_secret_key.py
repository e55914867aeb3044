"""A process starts only with the key that has encrypted the secrets of its database."""

import asyncio
import re
import shutil
from pathlib import Path

from tests.acceptance.conversation import take_seat
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.environment import manage
from tests.acceptance.harness.processes import Process
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.serve.starting import Connect, MakeProject, MakeServer

SENTENCE = re.compile(
    r"encrypted with one that it lacks\. Copy that one .* `.*secret-key --accept`"
)
ENV = ["MARKED=value-of-the-environment"]


def start_elsewhere(server: Server, name: str, *arguments: str, key: Path | None) -> Process:
    """Starts a process on the same database with a data folder of its own."""
    folder = server.folder / name
    folder.mkdir(mode=0o700)
    if key is not None:
        shutil.copy(key, folder / "secret.key")
    env = {**server.env, "CRUSH_DATA_DIR": str(folder)}
    process = manage(name, list(arguments), env=env, log=server.folder / f"{name}.log")
    process.start()
    return process


async def test_processes_with_another_key_do_not_start(
    make_a_server: MakeServer, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(Shape.SCALED)
    await asyncio.to_thread(server.start)
    await take_seat(connect(server), project(), env=ENV)
    own = server.data_dir / "secret.key"
    assert own.exists()
    web = ("web", "--host", "tcp://127.0.0.1:0")
    for name, arguments in (("other-worker", ("runworker",)), ("other-web", web)):
        process = start_elsewhere(server, name, *arguments, key=None)
        assert await asyncio.to_thread(process.wait) == 1
        assert SENTENCE.search(" ".join(process.log_text().split())), process.log_text()
        assert "Traceback" not in process.log_text()
        assert not (server.folder / name / "secret.key").exists()
    same = start_elsewhere(server, "same-worker", "runworker", key=own)
    await asyncio.to_thread(same.wait_for_line, "Working")
    assert await asyncio.to_thread(same.stop) == 0
    refused = await asyncio.to_thread(command, server.env, "secret-key", "--accept")
    assert (refused.code, "Stop all processes" in refused.err) == (1, True)


async def test_a_key_can_be_replaced_with_and_without_what_it_has_encrypted(
    make_a_server: MakeServer, shape: Shape, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(shape)
    await asyncio.to_thread(server.start)
    path = project()
    seat = await take_seat(connect(server), path, env=ENV, yolo=True)
    await asyncio.to_thread(server.stop)
    key, former = server.data_dir / "secret.key", server.folder / "former.key"
    assert command(server.env, "secret-key").code == 0
    if shape is Shape.EMBEDDED:  # whose database has known no key yet: its first secret made one
        await asyncio.to_thread(server.restart)
        await asyncio.to_thread(server.stop)

    key.rename(former)
    assert SENTENCE.search(" ".join(command(server.env, "secret-key").err.split()))
    assert not key.exists()
    done = command(server.env, "secret-key", "--accept", "--former", str(former))
    assert (done.code, "1 secrets encrypted" in done.out) == (0, True), done.err
    assert key.read_bytes() != former.read_bytes()
    await asyncio.to_thread(server.start)
    again = await take_seat(connect(server), path, yolo=True)
    assert again.workspace.id == seat.workspace.id
    session = await again.workspace.session()
    await again.workspace.prompt(
        session, '[[tool=bash {"command": "echo $MARKED", "description": "t"}]] [[n=1]]'
    )
    await again.stream.run_complete(session)
    assert "value-of-the-environment" in str(await again.workspace.messages(session))
    await asyncio.to_thread(server.stop)

    key.unlink()
    assert command(server.env, "secret-key", "--accept").code == 0
    await asyncio.to_thread(server.start)
