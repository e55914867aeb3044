"""`python -m tests.bench.fleet_child`: sub-agents that send stamped words, on no code of ours.

Prints `listening ws://127.0.0.1:PORT` and serves any number of parents. An assignment is
`COUNT MS`: so many words, so many milliseconds apart, each `@` and the microsecond at which it left.
"""

import asyncio
import gc
import json
import time

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

COMPLETED = '{"kind":"terminal","status":"completed","result":"done"}'


async def stream(socket: ServerConnection, count: int, apart: float) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for number in range(count):
        # By the clock, so that the pace holds whatever each word costs.
        await asyncio.sleep(begun + number * apart - loop.time())
        word = f"@{time.time_ns() // 1000} "
        await socket.send(f'{{"kind":"event","event":{{"content":"{word}","type":"token"}}}}')
    await socket.send(COMPLETED)


async def handle(socket: ServerConnection) -> None:
    running: asyncio.Task[None] | None = None
    try:
        async for text in socket:
            frame = json.loads(text)
            if frame["kind"] == "run":
                count, apart = map(int, frame["assignment"].split())
                running = asyncio.create_task(stream(socket, count, apart / 1000))
    except ConnectionClosed:
        pass
    finally:
        if running is not None:
            running.cancel()


async def main() -> None:
    async with serve(handle, "127.0.0.1", 0, compression=None, ping_interval=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        print(f"listening ws://127.0.0.1:{port}", flush=True)
        gc.freeze()
        gc.disable()  # its pauses would be taken for the server's
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
