"""What this process measures about its own work. The code that measures is independent of listeners.

A measurement costs one call for each listener, in the event loop; without a listener it costs
nothing. Nothing is measured for a single word of a reply.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TypeAlias


class Measured(StrEnum):
    """The figures; each with the labels that its measurements have, in this order."""

    ACCEPT = "accept"  # seconds until a run was stored
    QUEUE_WAIT = "queue_wait"  # seconds from there to its start
    STEP = "step"  # seconds until a step of a run was stored
    MODEL = "model"  # seconds of a request to a model: provider, model
    FIRST_TEXT = "first_text"  # seconds until its first text: provider, model
    MODEL_RETRY = "model_retry"  # failed attempts of a request: provider, model
    TOOL = "tool"  # seconds of a tool call: tool
    TOKENS = "tokens"  # provider, model, kind of tokens
    COST = "cost"  # in the currency of the prices: provider, model
    LOG_LAG = "log_lag"  # seconds from an event's transaction to the readers of this process
    LEASE_LOST = "lease_lost"
    RESCUE = "rescue"
    READER_OVERFLOW = "reader_overflow"


Listener: TypeAlias = Callable[[Measured, float, tuple[str, ...]], None]

_listeners: list[Listener] = []


def listen_to_measurements(listener: Listener) -> None:
    _listeners.append(listener)


def stop_listening_to_measurements(listener: Listener) -> None:
    if listener in _listeners:
        _listeners.remove(listener)


def measure(what: Measured, value: float = 1.0, *labels: str) -> None:
    """Passes a measurement on. Call it in the event loop."""
    for listener in _listeners:
        listener(what, value, labels)


@contextmanager
def measured(what: Measured) -> Iterator[None]:
    """Measures the seconds of a block that ends without an error."""
    began = time.perf_counter()
    yield
    measure(what, time.perf_counter() - began)
