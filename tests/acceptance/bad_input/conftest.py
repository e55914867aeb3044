"""A server in which nothing lapses by itself, and an attacker in it."""

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.acceptance.bad_input.attacker import Attacker, Connect, MakeProject
from tests.acceptance.conversation import take_seat
from tests.acceptance.harness.kept import KeptServers
from tests.acceptance.harness.native import NativeSse
from tests.acceptance.harness.services import Services
from tests.acceptance.harness.shapes import Server, Shape


@pytest.fixture(scope="session")
def still_servers(
    tmp_path_factory: pytest.TempPathFactory, shared_services: Callable[[], Services]
) -> Iterator[Callable[[Shape], Server]]:
    """One server for each shape, in which nothing lapses by itself while a test compares."""
    graces = {"CRUSH_SERVER_CREATE_GRACE": "3600", "CRUSH_SERVER_DETACH_GRACE": "3600"}
    kept = KeptServers(tmp_path_factory.mktemp("still"), shared_services, env=graces)
    yield kept
    kept.close()


@pytest.fixture
def still_server(shape: Shape, still_servers: Callable[[Shape], Server]) -> Server:
    return still_servers(shape)


@pytest.fixture
async def attacker(still_server: Server, connect: Connect, project: MakeProject) -> Attacker:
    seat = await take_seat(connect(still_server), project(uuid.uuid4().hex))
    # What an opened workspace tells by itself, soon after: nothing comes behind it.
    log = await NativeSse(seat.workspace.client.http, seat.workspace.id, after=0).open()
    await log.wait_for(lambda received: received.type == "skills.changed")
    await log.close()
    return await Attacker(still_server, seat, await seat.workspace.session()).begin()
