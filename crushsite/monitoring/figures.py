"""The figures of this process for ``/metrics``: what it measures, and what it counts at a request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from agents.figures import runs_by_state
from agents.states import RunState
from agents.tools.registry import TOOLS
from crushsite.monitoring.metrics import (
    OTHER,
    CounterFigure,
    Figure,
    GaugeFigure,
    HistogramFigure,
    Values,
    page,
)
from workspaces.log.deadlines import wait_at_most
from workspaces.log.outage import outage
from workspaces.log.reader import read
from workspaces.measuring import Measured
from workspaces.release import VERSION

logger = logging.getLogger(__name__)

DATABASE_SECONDS = 1.0  # the page does without what the database does not answer in this time

_SHORT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_LONG = (0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_SERVED = ("provider", "model")


def _nothing() -> dict[str, int]:
    return {}


class ServerFigures:
    """Listens to the measurements of this process. Used in the event loop alone."""

    def __init__(self) -> None:
        self._of: Mapping[Measured, CounterFigure | HistogramFigure] = {
            Measured.ACCEPT: HistogramFigure(
                "crush_accept_seconds", "Time to store a prompt or another run.", _SHORT
            ),
            Measured.QUEUE_WAIT: HistogramFigure(
                "crush_queue_wait_seconds", "Time from the acceptance of a run to its start.", _LONG
            ),
            Measured.STEP: HistogramFigure(
                "crush_step_seconds", "Time to store a step of a run.", _SHORT
            ),
            Measured.MODEL: HistogramFigure(
                "crush_model_seconds", "Time of a request to a model, with retries.", _LONG, _SERVED
            ),
            Measured.FIRST_TEXT: HistogramFigure(
                "crush_model_first_text_seconds", "Time to a model's first text.", _LONG, _SERVED
            ),
            Measured.MODEL_RETRY: CounterFigure(
                "crush_model_retries_total", "Failed attempts that were repeated.", _SERVED
            ),
            Measured.TOOL: HistogramFigure(
                "crush_tool_seconds", "Time of a tool call.", _LONG, ("tool",)
            ),
            Measured.TOKENS: CounterFigure(
                "crush_tokens_total", "Tokens of requests to models.", (*_SERVED, "kind")
            ),
            Measured.COST: CounterFigure(
                "crush_cost_total", "Cost of requests to models, in their currency.", _SERVED
            ),
            Measured.LOG_LAG: HistogramFigure(
                "crush_log_lag_seconds", "Time from an event to this process's readers.", _SHORT
            ),
            Measured.LEASE_LOST: CounterFigure(
                "crush_leases_lost_total", "Runs that this process no longer held."
            ),
            Measured.RESCUE: CounterFigure(
                "crush_rescued_runs_total", "Runs of lost workers that this process has taken over."
            ),
            Measured.READER_OVERFLOW: CounterFigure(
                "crush_reader_overflows_total", "Readers that were too slow and had to resume."
            ),
        }
        self._running: Callable[[], int] = int
        self._readers: Callable[[], Mapping[str, int]] = _nothing

    def watch(
        self, *, running: Callable[[], int], readers: Callable[[], Mapping[str, int]]
    ) -> None:
        """``readers``: how many streams of each kind are open."""
        self._running, self._readers = running, readers

    def watch_no_more(self) -> None:
        self.watch(running=int, readers=_nothing)

    def handle(self, what: Measured, value: float, labels: tuple[str, ...]) -> None:
        if what is Measured.TOOL and labels[0] not in TOOLS:
            labels = (OTHER,)  # models and MCP servers choose these names
        self._of[what].add(value, labels)

    async def page(self) -> str:
        """Returns the text of all figures."""
        return page([*self._of.values(), *self._own_gauges(), *await _shared_gauges()])

    def _own_gauges(self) -> list[Figure]:
        readers: Values = {(kind,): float(count) for kind, count in self._readers().items()}
        since = outage.seconds
        return [
            GaugeFigure(
                "crush_running_runs", "Runs in this process.", {(): float(self._running())}
            ),
            GaugeFigure("crush_subscribers", "Open streams of this process.", readers, "wire"),
            GaugeFigure(
                "crush_database_outage_seconds", "How long the database has failed.", {(): since}
            ),
            GaugeFigure("crush_info", "The version.", {(VERSION,): 1.0}, "version"),
        ]


async def _shared_gauges() -> list[Figure]:
    """Returns figures from the database, which are the same in each process."""
    try:
        with wait_at_most(DATABASE_SECONDS):
            async with asyncio.timeout(DATABASE_SECONDS):
                found: dict[str, Any] = await read(runs_by_state)
    except Exception as error:  # noqa: BLE001  the figures of this process are shown anyway
        logger.debug("the runs could not be counted: %s", error)
        return []
    states = [state.value for state in RunState if state is not RunState.FINISHED]
    values: Values = {(state,): float(found.get(state, 0)) for state in states}
    return [GaugeFigure("crush_runs", "Unfinished runs of all processes.", values, "state")]


FIGURES = ServerFigures()
