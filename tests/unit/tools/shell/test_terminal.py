import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.tools.shell.terminal import shown


@pytest.mark.parametrize(
    ("printed", "drawn"),
    [
        ("a\r\nb\n", "a\nb\n"),
        ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
        ("\x1b[2J\x1b[H\x1b[?25lx\x1b[K", "x"),
        ("\x1b]0;title\x07a\x1b]52;c;c2VjcmV0\x1b\\b", "ab"),
        ("\x1bPdevice\x1b\\a\x1b(Bb\x1b7\x1b8c\x1bM", "abc"),
        ("10%\r55%\r100%\ndone\n", "100%\ndone\n"),
        ("waiting\r", "waiting"),
        ("bell\x07 back\x08 \x0e\x7f", "bell bac "),
        ("tab\there", "tab\there"),
        ("cut off \x1b", "cut off "),
        ("\x1b]0;a title without an end", ""),
    ],
)
def test_colours_stay_and_what_would_move_a_cursor_goes(printed: str, drawn: str) -> None:
    assert shown(printed) == drawn


@given(st.text(alphabet="\x1b[]0;1mHJ\\\x07\x08\r\n(Bab\x9b\x90"))
def test_no_escape_but_a_colour_is_left(printed: str) -> None:
    text = shown(printed)
    rest = text
    while "\x1b[" in rest:
        before, _, rest = rest.partition("\x1b[")
        assert "\x1b" not in before
        head = rest.lstrip("0123456789;:")
        assert head.startswith("m"), repr(text)
    assert "\x1b" not in rest
    assert "\x07" not in text
    assert "\r" not in text
