"""The executor that says the assignment's words again: for trying the transport alone."""

from __future__ import annotations

import re

from agents.fleet.child.run_context import Desk
from agents.fleet.wire import Status, Terminal

_SLEEP = re.compile(r"__sleep_ms:([0-9]{1,9})", re.ASCII)


class EchoExecutor:
    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    async def run(self, desk: Desk) -> Terminal:
        words = desk.run.assignment.split()
        sleep = next((match for word in words if (match := _SLEEP.fullmatch(word))), None)
        if sleep is not None:
            words.remove(sleep[0])  # only the first one; the others are words
            await desk.sleep(int(sleep[1]) / 1000)
        for word in words:
            await desk.emit({"type": "token", "content": f"{word} "})
        await desk.emit({"type": "complete"})
        return Terminal(Status.COMPLETED, result=f"echo: {' '.join(words)}")
