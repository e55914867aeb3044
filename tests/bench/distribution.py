"""Percentiles of what was measured."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Distribution:
    """p50, p99, the largest, and how many values there were."""

    p50: float
    p99: float
    largest: float
    count: int


def distribution(values: Iterable[float]) -> Distribution | None:
    """None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    last = len(ordered) - 1
    return Distribution(
        ordered[int(0.5 * last)], ordered[int(0.99 * last)], ordered[-1], len(ordered)
    )


def typical(several: list[Distribution]) -> Distribution:
    """The median of each number over several runs."""
    return Distribution(
        median(d.p50 for d in several),
        median(d.p99 for d in several),
        median(d.largest for d in several),
        several[0].count,
    )
