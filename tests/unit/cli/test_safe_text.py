"""Everything in a text that a terminal would hide, act on or not draw is to be seen."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crushsite.cli.terminal import is_seen, visible, visible_lines, width_of, wrapped


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ls -la", "ls -la"),
        ("a\x1b[2Jb", "a⟨ESC⟩[2Jb"),
        ("a\rb", "a⟨CR⟩b"),
        ("a\0\a\b\x7f\x9b", "a⟨NUL⟩⟨BEL⟩⟨BS⟩⟨DEL⟩⟨U+009B⟩"),
        ("\u202egnp.exe", "⟨U+202E⟩gnp.exe"),
        ("a\u200bb\ufeff", "a⟨U+200B⟩b⟨U+FEFF⟩"),
        ("a\u00a0b\u3000c\u2028d", "a⟨U+00A0⟩b⟨U+3000⟩c⟨U+2028⟩d"),
        ("a\u3164\u115f\u2800b", "a⟨U+3164⟩⟨U+115F⟩⟨U+2800⟩b"),
        ("a\ufe0f\U000e0101\U000e0061", "a⟨U+FE0F⟩⟨U+E0101⟩⟨U+E0061⟩"),
        ("\tb\tc", "⇥   b⇥  c"),
        ("⟨ESC⟩⇥", "⟨U+27E8⟩ESC⟨U+27E9⟩⟨U+21E5⟩"),
        ("a  ", "a⟨2 blanks at the end⟩"),
        (" ", "⟨1 blank at the end⟩"),
        ("ls" + " " * 4000 + "; id", "ls⟨4,000 blanks⟩; id"),
        (" " * 40 + "x", " " * 40 + "x"),
        (" " * 41 + "x", "⟨41 blanks⟩x"),
        ("é e\u0301 日本", "é e\u0301 日本"),
        ("e\u0301\u0302\u0303", "e\u0301\u0302⟨U+0303⟩"),
        ("a\nb", "a⟨LF⟩b"),
    ],
)
def test_it_is_shown_as(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\nb\n", ["a", "b"]),
        ("a\n\n\nb", ["a", "", "", "b"]),
        ("a" + "\n" * 500 + "id", ["a", "⟨499 empty lines⟩", "id"]),
        ("a\r\nb\x0bc\x85d", ["a⟨CR⟩", "b⟨U+000B⟩c⟨U+0085⟩d"]),
        ("", []),
    ],
)
def test_only_line_feeds_end_lines(text: str, lines: list[str]) -> None:
    assert [line for line in visible_lines(text) if line or lines] == lines


def test_no_character_of_unicode_steers_a_terminal() -> None:
    for number in range(sys.maxunicode + 1):
        character = chr(number)
        if not 0xD800 <= number < 0xE000 and is_seen(character) and character != " ":
            assert unicodedata.category(character)[0] not in "CZ", hex(number)


@given(st.text(), st.text())
def test_different_texts_never_look_the_same(one: str, other: str) -> None:
    if one != other:
        assert visible(one) != visible(other)


@given(st.text(), st.integers(2, 30))
def test_wrapping_loses_nothing_and_fits(text: str, width: int) -> None:
    line = visible(text)
    pieces = wrapped(line, width)
    assert "".join(pieces) == line
    assert all(width_of(piece) <= width for piece in pieces)
