"""Workers hear of work at once; their own looking is for the nudges that were lost."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.conversation import SHORT, SLOW, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server


# Whoever misses a nudge waits longer than any limit of this test.
@pytest.mark.server_env(CRUSH_POLL="3000", CRUSH_LEASE="30000")
@pytest.mark.server_workers(2)
async def test_a_worker_is_notified_of_prompts_and_cancels_without_polling(
    server: Server, connect: Callable[[Server], Client], project: Callable[..., Path]
) -> None:
    seat = await take_seat(connect(server), project())
    for number in range(5):
        session = await seat.workspace.session()
        await seat.workspace.prompt(session, SHORT, f"short {number}")
        await seat.stream.run_complete(session, f"short {number}")
        await seat.workspace.prompt(session, SLOW, f"slow {number}")
        await seat.stream.words(session, 6)
        await seat.workspace.cancel(session)
        complete = await seat.stream.run_complete(session, f"slow {number}")
        assert complete["cancelled"] is True
