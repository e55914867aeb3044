"""Counters and histograms, and their text in the format of Prometheus. Pure; of one thread.

An own format of thirty lines, because the usual library locks each measurement and imports 40
modules. https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import TypeAlias

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_SERIES = 200  # of one figure: who chooses models must not fill the memory
OTHER = "other"
LABEL_CHARS = 100

Labels: TypeAlias = tuple[str, ...]
Values: TypeAlias = dict[Labels, float]


class CounterFigure:
    kind = "counter"

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        self.name, self.text = name, text
        self._names = labels
        self._values: Values = {}
        if not labels:
            self._values[()] = 0.0

    def add(self, value: float, labels: Labels = ()) -> None:
        labels = _bounded(labels, self._values)
        self._values[labels] = self._values.get(labels, 0.0) + value

    def lines(self) -> Iterator[str]:
        for labels, value in self._values.items():
            yield _line(self.name, zip(self._names, labels, strict=True), value)


class HistogramFigure:
    kind = "histogram"

    def __init__(
        self, name: str, text: str, bounds: Sequence[float], labels: Sequence[str] = ()
    ) -> None:
        """``bounds``: the upper bounds of the buckets, without the last one, which has none."""
        self.name, self.text = name, text
        self._bounds = tuple(bounds)
        self._names = labels
        self._values: dict[Labels, list[int]] = {}  # how many are in each bucket
        self._sums: dict[Labels, float] = {}
        if not labels:
            self._begin(())

    def add(self, value: float, labels: Labels = ()) -> None:
        counts = self._values.get(labels)
        if counts is None:
            labels = _bounded(labels, self._values)
            counts = self._values.get(labels) or self._begin(labels)
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[labels] += value

    def _begin(self, labels: Labels) -> list[int]:
        counts = self._values[labels] = [0] * (len(self._bounds) + 1)
        self._sums[labels] = 0.0
        return counts

    def lines(self) -> Iterator[str]:
        for labels, counts in self._values.items():
            pairs = list(zip(self._names, labels, strict=True))
            total = 0
            for bound, count in zip((*self._bounds, float("inf")), counts, strict=True):
                total += count
                yield _line(f"{self.name}_bucket", [*pairs, ("le", _number(bound))], total)
            yield _line(f"{self.name}_sum", pairs, self._sums[labels])
            yield _line(f"{self.name}_count", pairs, total)


class GaugeFigure:
    """Values as they are now, read for one page."""

    kind = "gauge"

    def __init__(self, name: str, text: str, values: Values, *labels: str) -> None:
        self.name, self.text = name, text
        self._names, self._values = labels, values

    def lines(self) -> Iterator[str]:
        for labels, value in self._values.items():
            yield _line(self.name, zip(self._names, labels, strict=True), value)


Figure: TypeAlias = CounterFigure | HistogramFigure | GaugeFigure


def page(figures: Iterable[Figure]) -> str:
    """Returns the text of all figures."""
    found: list[str] = []
    for figure in figures:
        found += [f"# HELP {figure.name} {figure.text}", f"# TYPE {figure.name} {figure.kind}"]
        found += figure.lines()
    return "\n".join(found) + "\n"


def _bounded(labels: Labels, known: Values | dict[Labels, list[int]]) -> Labels:
    if labels in known:
        return labels
    if len(known) >= MOST_SERIES:
        return (OTHER,) * len(labels)
    return tuple(label[:LABEL_CHARS] for label in labels)


def _line(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    return f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}"


def _escaped(text: str) -> str:
    # Models, tools and configurations choose some of the labels.
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _number(value: float) -> str:
    if not isfinite(value):
        return "+Inf" if value > 0 else "NaN"
    return str(int(value)) if value == int(value) else repr(float(value))
