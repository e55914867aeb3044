import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.tools.lsp.positions import (
    EditsClash,
    Position,
    PositionedText,
    Span,
    TextEdit,
    column,
    units,
)

GRIN = "\N{GRINNING FACE}"


def edit(start: tuple[int, int], end: tuple[int, int], text: str) -> TextEdit:
    return TextEdit(Span(Position(*start), Position(*end)), text)


def test_columns_are_counted_in_utf_16_units() -> None:
    assert units(f"a{GRIN}é") == 4
    assert units(f"a{GRIN}é", "utf-8") == 7
    assert units(f"a{GRIN}é", "utf-32") == 3
    assert column(f"a{GRIN}bc", 3) == 2
    assert column(f"a{GRIN}bc", 2) == 1  # inside of a letter is before it
    assert column("abc", 99) == 3


def test_a_place_after_a_wide_letter_is_found_and_told() -> None:
    text = PositionedText(f"x\ns = '{GRIN}'; call()\n")
    offset = text.text.index("call")
    assert text.position(offset) == Position(1, 10)
    assert text.offset(Position(1, 10)) == offset


@given(st.text(alphabet=f"ab{GRIN}é\n\r", max_size=40), st.data())
def test_every_place_comes_back_as_it_was(content: str, data: st.DataObject) -> None:
    text = PositionedText(content)
    offset = data.draw(st.integers(0, len(content)))
    if content[offset - 1 : offset + 1] == "\r\n" and offset:
        return  # inside of a line's end is no place
    assert text.offset(text.position(offset)) == offset


def test_every_kind_of_line_end_counts() -> None:
    text = PositionedText("a\r\nb\rc\nd")
    assert [text.line(n) for n in range(text.line_count)] == ["a", "b", "c", "d"]


def test_a_place_outside_of_the_text_is_the_nearest_inside() -> None:
    text = PositionedText("ab\nc")
    assert text.offset(Position(0, 50)) == 2
    assert text.offset(Position(9, 0)) == 4
    assert text.line(9) == ""


def test_edits_mean_the_text_as_it_was() -> None:
    text = PositionedText("one two one\n")
    edits = [edit((0, 8), (0, 11), "three"), edit((0, 0), (0, 3), "1")]
    assert text.apply(edits) == "1 two three\n"


def test_insertions_at_one_place_keep_their_order() -> None:
    assert (
        PositionedText("x").apply([edit((0, 0), (0, 0), "a"), edit((0, 0), (0, 0), "b")]) == "abx"
    )


@pytest.mark.parametrize(
    "edits",
    [
        [edit((0, 0), (0, 5), "a"), edit((0, 3), (0, 8), "b")],
        [edit((0, 5), (0, 2), "a")],
    ],
)
def test_edits_that_overlap_or_run_backwards_are_refused(edits: list[TextEdit]) -> None:
    with pytest.raises(EditsClash):
        PositionedText("0123456789").apply(edits)
