"""The text of figures is what Prometheus reads, whatever the labels contain."""

import re

from crushsite.monitoring.figures import ServerFigures
from crushsite.monitoring.metrics import MOST_SERIES, CounterFigure, HistogramFigure, page
from workspaces.measuring import (
    Measured,
    listen_to_measurements,
    measure,
    measured,
    stop_listening_to_measurements,
)

# The grammar of the format: a name, labels in quotes with three escapes, and a number.
SAMPLE = re.compile(
    r'[a-z_]+(?:\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\})?'
    r" (?:\+Inf|NaN|-?\d+(?:\.\d+)?(?:e-?\d+)?)"
)


def assert_readable(text: str) -> None:
    assert text.endswith("\n")
    for line in text.splitlines():
        assert line.startswith(("# HELP ", "# TYPE ")) or SAMPLE.fullmatch(line), line


def test_a_histogram_counts_in_buckets_that_include_the_smaller_ones() -> None:
    figure = HistogramFigure("wait_seconds", "Waits.", (0.1, 1))
    for value in (0.05, 0.1, 0.5, 7):
        figure.add(value)
    assert page([figure]).splitlines() == [
        "# HELP wait_seconds Waits.",
        "# TYPE wait_seconds histogram",
        'wait_seconds_bucket{le="0.1"} 2',
        'wait_seconds_bucket{le="1"} 3',
        'wait_seconds_bucket{le="+Inf"} 4',
        "wait_seconds_sum 7.65",
        "wait_seconds_count 4",
    ]


def test_a_figure_without_labels_begins_with_nothing() -> None:
    assert "lost_total 0" in page([CounterFigure("lost_total", "Lost.")])
    assert "wait_seconds_count 0" in page([HistogramFigure("wait_seconds", "Waits.", (1,))])


def test_labels_of_others_stay_in_their_quotes() -> None:
    figure = CounterFigure("uses_total", "Uses.", ("model",))
    figure.add(1, ('a"} 1\nforged_total{x="\\',))
    text = page([figure])
    assert_readable(text)
    assert len(text.splitlines()) == 3
    assert "forged_total" not in text.splitlines()[2].partition("{")[0]


def test_many_labels_do_not_fill_the_memory() -> None:
    counter = CounterFigure("uses_total", "Uses.", ("model",))
    histogram = HistogramFigure("use_seconds", "Uses.", (1,), ("model",))
    for number in range(10 * MOST_SERIES):
        counter.add(1, (f"model {number}" * 1000,))
        histogram.add(1, (f"model {number}" * 1000,))
    text = page([counter, histogram])
    assert len(text.splitlines()) < 6 * MOST_SERIES
    assert f'uses_total{{model="other"}} {9 * MOST_SERIES}' in text
    assert max(map(len, text.splitlines())) < 200


def test_a_tool_that_a_model_invents_is_no_label() -> None:
    figures = ServerFigures()
    for name in ("bash", "mcp_secret_tool", "invented"):
        figures.handle(Measured.TOOL, 0.2, (name,))
    lines = "\n".join(figures._of[Measured.TOOL].lines())
    assert 'tool="bash"' in lines
    assert 'tool="other"' in lines
    assert "secret" not in lines
    assert "invented" not in lines


def test_measurements_go_to_those_who_listen() -> None:
    heard: list[tuple[Measured, float, tuple[str, ...]]] = []

    def listener(what: Measured, value: float, labels: tuple[str, ...]) -> None:
        heard.append((what, value, labels))

    measure(Measured.RESCUE)
    listen_to_measurements(listener)
    measure(Measured.TOOL, 2.0, "bash")
    with measured(Measured.ACCEPT):
        pass
    stop_listening_to_measurements(listener)
    measure(Measured.RESCUE)
    assert heard[0] == (Measured.TOOL, 2.0, ("bash",))
    assert [what for what, _, _ in heard] == [Measured.TOOL, Measured.ACCEPT]


def test_every_measurement_has_a_figure() -> None:
    assert set(ServerFigures()._of) == set(Measured)
