"""The options of `prompt`: what its run may use, and its output as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from django.core.management.base import CommandError
from typing_extensions import override

from crushsite.cli.session import Choices, Item
from crushsite.cli.terminal_output import News, RunEnded, TerminalOutput

_LIMIT = re.compile(r"(\d+(?:\.\d+)?)(usd|tokens?|steps?|s|m|h)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def choices_of(options: Mapping[str, Any]) -> Choices:
    """The fields of the native interface for the options. Raises ``CommandError``."""
    chosen: dict[str, Any] = {name: options[name] for name in ("model", "effort") if options[name]}
    if options["budget"]:
        chosen["budget"] = budget_of(options["budget"])
    choices: dict[str, Any] = {"options": chosen} if chosen else {}
    if options["strategy"]:
        choices["strategy"] = options["strategy"]
    if options["scheduled"]:
        choices["priority"] = "scheduled"
    return choices


def budget_of(limits: list[str]) -> dict[str, float | int]:
    """Parses limits like ``0.50usd``, ``20000tokens``, ``10steps``, ``15m``. Raises ``CommandError``."""
    budget: dict[str, float | int] = {}
    for limit in limits:
        match = _LIMIT.fullmatch(limit.strip().lower())
        if match is None or float(match[1]) <= 0:
            raise CommandError(
                f"--budget {limit}: must be an amount like 0.50usd, 20000tokens, 10steps or 15m."
            )
        amount, unit = float(match[1]), match[2]
        if unit == "usd":
            name, value = "cost", amount
        elif unit in _SECONDS:
            name, value = "seconds", int(amount * _SECONDS[unit])
        else:
            name, value = f"{unit.removesuffix('s')}s", int(amount)
        if name in budget:
            raise CommandError(f"--budget: the limit of {name} is given twice.")
        budget[name] = value
    return budget


def line_of(value: Any) -> str:
    return orjson.dumps(value).decode()


class JsonOutput(TerminalOutput):
    """The output of a run for programs. ``streams``: also each item of the stream."""

    def __init__(
        self, *, session_id: str, run_id: str, write: Callable[[Any], None], streams: bool
    ) -> None:
        self._words: list[str] = []
        super().__init__(
            session_id=session_id, run_id=run_id, say=self._words.append, note=lambda _: None
        )
        self._write = write
        self._streams = streams
        self._ids = {"session_id": session_id, "run_id": run_id}
        self._run: Mapping[str, Any] = {}

    @override
    def take(self, item: Item) -> News:
        if isinstance(item, Mapping):
            run = item["data"].get("run") if isinstance(item["data"], Mapping) else None
            if isinstance(run, Mapping) and run.get("run_id") == self._ids["run_id"]:
                self._run = {**self._run, **run}
        if self._streams and self.concerns(item):
            self._write(item)
        return super().take(item)

    def result(self, ended: RunEnded) -> dict[str, Any]:
        """What the run came to; the last line of the output."""
        result = {"outcome": ended.outcome, "error": ended.error, "text": "".join(self._words)}
        if "budget" in self._run:
            result["budget"] = self._run["budget"]
        return {"type": "result", **self._ids, **result}
