"""The figures as a table of plain text."""

from collections.abc import Sequence

from tests.bench.distribution import Distribution
from tests.bench.figures import Row

Measured = Sequence[Distribution | None]


def header(names: Sequence[str]) -> str:
    columns = "".join(f"{name + ' p50':>16}{'p99':>10}" for name in names)
    return f"{'figure':<36}{columns}   limit p50 / p99\n{'-' * (36 + 26 * len(names) + 18)}"


def line(row: Row, measured: Measured) -> str:
    """One row; an exclamation mark after a number of the first subject that is over its limit."""
    cells = ""
    for number, got in enumerate(measured):
        if got is None:
            cells += f"{'–':>16}{'':>10}"
            continue
        own = number == 0
        p50 = _number(got.p50) + _mark(got.p50, row.p50_limit if own else None)
        # A single value has no p99 worth the name.
        p99 = _number(got.p99) + _mark(got.p99, row.p99_limit if own else None)
        cells += f"{p50:>16}{p99 if got.count > 1 else '':>10}"
    limits = " / ".join(_number(v) for v in (row.p50_limit, row.p99_limit) if v is not None)
    if row.p50_limit is None and row.p99_limit is not None:
        limits = f"– / {limits}"
    return f"{row.title + (f', {row.unit}' if row.unit else ''):<36}{cells}   {limits}"


def _mark(value: float, limit: float | None) -> str:
    return " " if limit is None or value <= limit else "!"


def _number(value: float) -> str:
    return (
        f"{value:,.0f}"
        if value >= 100 or value == int(value)
        else f"{value:.2g}"
        if value < 1
        else f"{value:.1f}"
    )
