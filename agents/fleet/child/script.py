"""An executor for tests of parents: the words of the assignment control its behaviour.

The description of the wire defines the words; any other word is echoed.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from agents.fleet.child.conversation import RunCounts
from agents.fleet.child.executor import ExecutorFailed
from agents.fleet.child.run_context import RunContext
from agents.fleet.wire.frames import Status, Terminal

_SLEEP = re.compile(r"__sleep_ms:([0-9]{1,9})", re.ASCII)


class EchoExecutor:
    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    async def run(self, context: RunContext) -> Terminal:
        words = context.run.assignment.split()
        sleep = next((match for word in words if (match := _SLEEP.fullmatch(word))), None)
        if sleep is not None:
            words.remove(sleep[0])  # only the first one; the others are ordinary words
            await context.sleep(int(sleep[1]) / 1000)
        for word in words:
            await context.emit({"type": "token", "content": f"{word} "})
        await context.emit({"type": "complete"})
        return Terminal(Status.COMPLETED, result=f"echo: {' '.join(words)}")


_WORD = re.compile(r"__([a-z_]+)(?::(.*))?", re.ASCII | re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


class _Ended(Exception):
    """The script ends with a terminal of its own."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal


class ScriptExecutor:
    def __init__(self, counts: RunCounts) -> None:
        self._counts = counts

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    async def run(self, context: RunContext) -> Terminal:
        results: list[str] = []
        try:
            for word in context.run.assignment.split():
                await self._perform(word, context, results)
        except _Ended as ended:
            return ended.terminal
        await context.emit({"type": "complete"})
        return Terminal(Status.COMPLETED, result=f"echo: {' '.join(results)}")

    async def _perform(self, word: str, context: RunContext, results: list[str]) -> None:
        match = _WORD.fullmatch(word)
        step = _STEPS.get(match[1]) if match is not None else None
        if match is None or step is None or not await step(self, match[2], context, results):
            await context.emit({"type": "token", "content": f"{word} "})
            results.append(word)

    # Each step returns whether its argument was valid; otherwise the word is echoed.

    async def _sleep(self, argument: str | None, context: RunContext, _results: list[str]) -> bool:
        (milliseconds,) = _numbers(argument, 1) or (None,)
        if milliseconds is not None:
            await context.sleep(milliseconds / 1000)
        return milliseconds is not None

    async def _stream(self, argument: str | None, context: RunContext, _results: list[str]) -> bool:
        numbers = _numbers(argument, 2)
        if numbers is None:
            return False
        count, apart = numbers
        for number in range(count):
            if apart and number:
                await context.sleep(apart / 1000)
            await context.emit({"type": "token", "content": f"tick{number} "})
        return True

    async def _approve(self, argument: str | None, context: RunContext, results: list[str]) -> bool:
        if not argument:
            return False
        body = {
            "tool_name": argument,
            "permission_type": argument,
            "resource": argument,
            "question": f"May {argument} run?",
        }
        approved = await context.approve(body)
        results.append(f"approved={'true' if approved else 'false'}")
        return True

    async def _await_steer(
        self, argument: str | None, context: RunContext, results: list[str]
    ) -> bool:
        (count,) = (1,) if argument is None else _numbers(argument, 1) or (None,)
        if count is None:
            return False
        for _ in range(count):
            results.append(f"steer=[{await context.next_message()}]")  # noqa: PERF401  one by one
        return True

    async def _drain_steer(
        self, argument: str | None, context: RunContext, results: list[str]
    ) -> bool:
        if argument is None:
            results.append(f"drained={len(context.take_messages())}")
        return argument is None

    async def _fail(self, argument: str | None, _context: RunContext, _results: list[str]) -> bool:
        if argument is None:
            return False
        raise ExecutorFailed(argument)

    async def _suspend(
        self, argument: str | None, context: RunContext, _results: list[str]
    ) -> bool:
        if argument is not None:
            return False
        assignment = {"role": "user", "content": context.run.assignment}
        waits = {"role": "assistant", "content": "waiting on children"}
        raise _Ended(Terminal(Status.SUSPENDED, transcript=(assignment, waits)))

    async def _stats(self, argument: str | None, _context: RunContext, results: list[str]) -> bool:
        if argument is None:
            counts = self._counts
            results.append(
                f"stats: started={counts.started} finished={counts.finished}"
                f" cancelled={counts.cancelled} active={counts.active}"
            )
        return argument is None

    async def _spec(self, argument: str | None, context: RunContext, results: list[str]) -> bool:
        if argument is None:
            run = context.run
            results.append(
                f"spec: messages={len(run.messages)} effort={run.reasoning_effort or 'none'}"
                f" chars={len(run.assignment)}"
            )
        return argument is None


_STEPS: dict[
    str, Callable[[ScriptExecutor, str | None, RunContext, list[str]], Awaitable[bool]]
] = {
    "sleep_ms": ScriptExecutor._sleep,
    "stream": ScriptExecutor._stream,
    "approve": ScriptExecutor._approve,
    "await_steer": ScriptExecutor._await_steer,
    "drain_steer": ScriptExecutor._drain_steer,
    "fail": ScriptExecutor._fail,
    "suspend": ScriptExecutor._suspend,
    "stats": ScriptExecutor._stats,
    "spec": ScriptExecutor._spec,
}


def _numbers(argument: str | None, count: int) -> tuple[int, ...] | None:
    parts = (argument or "").split(":")
    if len(parts) != count or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    return tuple(int(part) for part in parts)
