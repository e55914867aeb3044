"""`python -m tests.bench.identity`: what it costs to find out who sends a request.

The limit is 0.15 ms a request. A connection is looked up once; whether it is a tool's, only for
what a tool may not do.
"""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from statistics import median
from typing import Any

ROUNDS, EACH = 5, 200
# A child with as many open files as a language server has.
CHILD = "import time; files = [open('/dev/null') for _ in range(50)]; print(1, flush=True); time.sleep(60)"
CHILDREN = 10


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"CRUSH_DATA_DIR": folder, "DJANGO_SETTINGS_MODULE": "crushsite.settings"}
        os.chmod(folder, 0o700)
        import django

        django.setup()
        asyncio.run(measure())


async def measure() -> None:
    from django.conf import settings
    from django.contrib.auth import get_user_model

    from crushsite.asgi.identify import PEER, Identification
    from crushsite.asgi.peer import peer_of_socket
    from crushsite.asgi.tool_processes import is_tool
    from crushsite.storage import ensure_migrated
    from people.actions.tokens import create_token
    from people.identities import Identities
    from workspaces.log.reader import stop_reading
    from workspaces.log.writer import writer

    await asyncio.to_thread(ensure_migrated)
    writer.start(publish=None, loop=asyncio.get_running_loop())
    identities = Identities()
    identification = Identification(servers=list, folder=settings.DATA_DIR, identities=identities)
    user = await writer.write("", lambda _: get_user_model().objects.create_user("ann"))
    token = await writer.write(
        "", lambda tx: create_token(tx, user=user, name="bench", created_by=user).text
    )
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.connect(server.getsockname())
        with server.accept()[0] as ours:
            peer = peer_of_socket(ours)
            scope: dict[str, Any] = {
                "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")] * 4,
                "extensions": {PEER: {"peer": peer}},
            }
            signed = scope | {"headers": [(b"authorization", f"Bearer {token}".encode())]}

            async def new_token() -> None:
                identities.forget()
                await identification.caller_of(signed)

            async def look_up() -> None:
                peer_of_socket(ours)

            async def look_for_tools() -> None:
                is_tool(peer, [os.getpid()], settings.DATA_DIR)  # type: ignore[arg-type]  # it was found above

            show("a connection", await each(look_up))
            show("a request of the owner", await each(lambda: identification.caller_of(scope)))
            show(
                "a request with a known token", await each(lambda: identification.caller_of(signed))
            )
            show("a request with a token not seen for 2 s", await each(new_token))
            show("an answer, no tools running", await each(look_for_tools))
            with ExitStack() as stack:
                for _ in range(CHILDREN):
                    child = stack.enter_context(
                        subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE)
                    )
                    stack.callback(child.kill)
                    assert child.stdout is not None
                    child.stdout.readline()
                show(f"an answer, {CHILDREN} tools of 50 files", await each(look_for_tools))
    await asyncio.to_thread(writer.stop)
    await asyncio.to_thread(stop_reading)


async def each(work: Callable[[], Awaitable[object]]) -> float:
    """The median of several rounds, in milliseconds for one."""
    await work()
    rounds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(EACH):
            await work()
        rounds.append((time.perf_counter() - began) / EACH)
    return median(rounds) * 1000


def show(name: str, milliseconds: float) -> None:
    print(f"{name:<44} {milliseconds:8.3f} ms")


if __name__ == "__main__":
    main()
