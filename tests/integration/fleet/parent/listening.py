"""A listener that keeps what it hears and answers as it is told, and assignments it hears."""

import asyncio

from agents.fleet.parent.outcome import Listener, Order, RunLimits


class Ears:
    def __init__(self, answer=True) -> None:
        self.events: list[object] = []
        self.asked: list[tuple[str, object]] = []
        self.dropped: list[str] = []
        self.answer = answer  # a bool, or None: never answers
        self.changed = asyncio.Condition()
        self.listener = Listener(self.on_event, self.on_approval)

    async def on_event(self, event) -> None:
        self.events.append(event)
        async with self.changed:
            self.changed.notify_all()

    async def on_approval(self, request_id, body) -> bool:
        self.asked.append((request_id, body))
        async with self.changed:
            self.changed.notify_all()
        try:
            while self.answer is None:
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.dropped.append(request_id)
            raise
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def heard(self, count=1) -> None:
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(lambda: len(self.events) >= count)

    async def was_asked(self, count=1) -> None:
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(lambda: len(self.asked) >= count)

    @property
    def words(self) -> str:
        tokens = (e for e in self.events if isinstance(e, dict) and e.get("type") == "token")
        return "".join(event["content"] for event in tokens)


def assign(child, text, ears=None, **limits):
    """The assignment, and the task that runs it."""
    heard = ears or Ears()
    limits = {"wall_clock_seconds": 30.0, **limits}  # no test waits for ever
    assignment = child.assignment(Order(text), listener=heard.listener, limits=RunLimits(**limits))
    return assignment, asyncio.create_task(child.run(assignment))


async def outcome_of(child, text, ears=None, **limits):
    return await assign(child, text, ears, **limits)[1]
