"""Columns stand under their headings, and nothing in a cell steers the terminal."""

from crushsite.cli.terminal import aligned, cut, width_of


def test_columns_are_aligned_and_numbers_stand_right() -> None:
    table = aligned(["id", "count"], [["a", "5"], ["long-id", "1000"]])
    assert table.splitlines() == ["id       count", "a            5", "long-id   1000"]


def test_no_line_has_trailing_space() -> None:
    assert all(line == line.rstrip() for line in aligned(["a", "b"], [["x", ""]]).splitlines())


def test_no_rows_are_headings_alone() -> None:
    assert aligned(["a", "b"], []) == "a  b"


def test_wide_letters_count_double_and_accents_nothing() -> None:
    assert width_of("日本") == 4
    assert width_of("e\u0301") == 1
    assert aligned(["a", "b"], [["日", "x"], ["ab", "y"]]).splitlines()[1:] == ["日  x", "ab  y"]


def test_a_long_text_is_cut_to_the_width() -> None:
    assert cut("x" * 50, 10) == "x" * 9 + "…"
    assert width_of(cut("日" * 50, 10)) <= 10
    assert cut("short", 10) == "short"


def test_a_cell_is_one_line_without_escapes() -> None:
    assert cut("a\nb\x1b[31m\tc", 40) == "a b[31m c"
