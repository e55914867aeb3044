"""The table says what was measured and marks what is over its limit."""

from tests.bench.distribution import distribution, typical
from tests.bench.figures import FIGURES, Row
from tests.bench.table import line


def _row(p50: float | None, p99: float | None) -> Row:
    return Row("accept", "ms", lambda out: None, p50, p99)


def test_it_marks_what_is_over_its_limit() -> None:
    printed = line(_row(2.5, 15), [distribution([3.0, 3.0, 10.0])])
    assert "3!" in printed
    assert "10!" not in printed


def test_it_does_not_judge_the_peer() -> None:
    assert "!" not in line(_row(1, 1), [None, distribution([9.0, 9.0])])


def test_it_shows_a_dash_for_what_was_not_measured() -> None:
    assert "–" in line(_row(1, 1), [None])


def test_several_runs_are_told_by_their_medians() -> None:
    runs = [d for d in (distribution([v, v]) for v in (1.0, 50.0, 2.0)) if d is not None]
    assert typical(runs).p50 == 2.0


def test_names_are_unique() -> None:
    names = [figure.name for figure in FIGURES]
    assert len(names) == len(set(names))
