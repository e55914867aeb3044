"""Serves until it is told to end."""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal

from aiohttp import web

from tests.doubles.scripted_model.server import ScriptedModel


async def serve(host: str, port: int) -> None:
    runner = web.AppRunner(
        ScriptedModel().app(), access_log=None, handler_cancellation=True, shutdown_timeout=0.1
    )
    await runner.setup()
    site = web.TCPSite(runner, host, port, backlog=1024)
    await site.start()
    print(f"listening http://{host}:{runner.addresses[0][1]}", flush=True)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    await runner.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(description="A scripted model server.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
    asyncio.run(serve(options.host, options.port))


if __name__ == "__main__":
    main()
