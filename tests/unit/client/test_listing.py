"""Tables that fit the terminal."""

import pytest

from crushsite.client.listing import Column, duration, moment, shown_columns, widths_for

COLUMNS = (
    Column("id"),
    Column("what", is_flexible=True),
    Column("cost", is_number=True, is_optional=True),
    Column("when", is_optional=True),
)
ROWS = [["12345678", "w" * 60, "0.1234", "2026-11-19 15:00"], ["1", "short", "1", "-"]]


@pytest.mark.parametrize(
    ("width", "shown"),
    [(160, [0, 1, 2, 3]), (60, [0, 1, 2, 3]), (45, [0, 1, 2]), (30, [0, 1]), (5, [0, 1])],
)
def test_optional_columns_are_left_out_from_the_right(width: int, shown: list[int]) -> None:
    assert shown_columns(COLUMNS, ROWS, width) == shown


@pytest.mark.parametrize("width", range(10, 170, 7))
def test_a_table_fits(width: int) -> None:
    shown = shown_columns(COLUMNS, ROWS, width)
    columns = [COLUMNS[index] for index in shown]
    rows = [[row[index] for index in shown] for row in ROWS]
    assert sum(widths_for(columns, rows, width)) + 2 * (len(columns) - 1) < max(width, 9)


def test_flexible_columns_become_narrower_first() -> None:
    columns, rows = COLUMNS[:2], [row[:2] for row in ROWS]
    assert widths_for(columns, rows, 200) == [8, 60]
    assert widths_for(columns, rows, 40) == [8, 29]
    assert widths_for(columns, rows, 15) == [3, 9] or sum(widths_for(columns, rows, 15)) == 12


def test_wide_characters_count_twice() -> None:
    assert widths_for([Column("x")], [["日本語"]], 80) == [6]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.9, "59 s"),
        (61, "1 min 1 s"),
        (3_700, "1 h 1 min"),
        (90_000, "1 d 1 h"),
        (-5, "0 s"),
    ],
)
def test_durations_have_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_moment_that_is_missing_is_a_dash() -> None:
    assert moment(None) == moment(0) == "–"
    assert moment(1_795_103_520) == "2026-11-19 15:52:00Z"
