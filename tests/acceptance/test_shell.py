"""A user's own commands through a running server."""

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


@pytest.fixture
async def seat(shared_server: Server, connect: Connect, project: MakeProject) -> Seat:
    return await take_seat(connect(shared_server), project(uuid.uuid4().hex))


async def test_a_users_command_is_run_and_kept_as_his_message(seat: Seat) -> None:
    session = await seat.workspace.session()
    answer = await seat.workspace.shell(session, "echo hi there")
    assert answer == {"output": "hi there\n", "exit_code": 0}
    (message,) = await seat.workspace.messages(session)
    assert message["role"] == "user"
    assert message["parts"] == [
        {
            "type": "shell_command",
            "data": {"command": "echo hi there", "output": "hi there\n", "exit_code": 0},
        },
        {"type": "finish", "data": {"reason": "stop", "time": 0}},
    ]
