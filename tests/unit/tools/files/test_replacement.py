import time

import pytest

from agents.tools.contract import ToolRefusal
from agents.tools.files import replacement as replacements
from agents.tools.files.replacement import Replacement
from agents.tools.limits import MAX_TEXT_BYTES


@pytest.mark.parametrize(
    ("replacement", "sentence"),
    [
        (Replacement("x", "y"), "not found"),
        (Replacement("a", "y"), "found 2 times"),
        (Replacement("a", "a"), "the same"),
        (Replacement("", "a"), "old_string is empty"),
        (Replacement("a", "y" * 2_000_000, replace_all=True), "larger than"),
    ],
)
def test_it_says_why_it_refuses(replacement: Replacement, sentence: str) -> None:
    with pytest.raises(ToolRefusal, match=sentence):
        replacements.apply("a b a", replacement)


def test_it_replaces_once_or_everywhere() -> None:
    assert replacements.apply("a b", Replacement("a", "c")) == "c b"
    assert replacements.apply("a b a", Replacement("a", "c", replace_all=True)) == "c b c"
    assert replacements.apply("a b", Replacement("a ", "")) == "b"


def test_it_takes_either_line_end_for_a_file_with_carriage_returns() -> None:
    edit = Replacement("a\r\nb", "c\r\nd")
    assert replacements.apply("a\nb\n", edit, newline="\r\n") == "c\nd\n"


def test_it_leaves_carriage_returns_alone_elsewhere() -> None:
    assert replacements.apply("a\r\nb\n", Replacement("a\r\n", "c\r\n")) == "c\r\nb\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("a\r\nb\nc\r\n", "a\nb", "x\ny", "x\r\ny\nc\r\n"),
        ("a\r\nb\nc\r\n", "b\r\nc", "x\ny", "a\r\nx\ny\r\n"),
        ("a\nb\nc\r\nd\r\n", "a\r\nb", "x", "x\nc\r\nd\r\n"),
        ("a\r\nb\nc\r\n", "\nc\n", "\n", "a\r\nb\r\n"),
        ("é\r\nb\nc\r\né\r\nb\n", "é\nb", "x\nz", "x\r\nz\nc\r\nx\r\nz\n"),
    ],
)
def test_it_takes_either_line_end_where_a_file_has_both(
    text: str, old: str, new: str, after: str
) -> None:
    assert replacements.apply(text, Replacement(old, new, replace_all=True)) == after


def test_it_searches_mixed_line_ends_in_linear_time() -> None:
    text = "a\r\n" + "a\n" * 500_000
    began = time.monotonic()
    with pytest.raises(ToolRefusal, match="not found"):
        replacements.apply(text, Replacement("a\r\n" * 200_000 + "b", "x"))
    assert time.monotonic() - began < 20


def test_it_takes_either_line_end_for_a_file_of_carriage_returns() -> None:
    assert replacements.apply("a\nb\n", Replacement("a\r\nb", "c\rd"), newline="\r") == "c\nd\n"


def test_in_a_file_of_plain_ends_carriage_returns_are_taken_as_given() -> None:
    assert replacements.apply("a\nb", Replacement("a", "x\r\ny")) == "x\r\ny\nb"
    with pytest.raises(ToolRefusal, match="not found"):
        replacements.apply("a\nb\n", Replacement("a\r\nb", "c"))


def test_an_exact_match_comes_before_one_with_other_line_ends() -> None:
    edit = Replacement("a\nb", "c")
    assert replacements.apply("a\r\nb\na\nb\n", edit) == "a\r\nb\nc\n"


def test_what_is_replaced_and_what_replaces_it_may_differ_in_line_ends_alone() -> None:
    assert replacements.apply("a\r\nb\n", Replacement("a\r\n", "a\n")) == "a\nb\n"
    with pytest.raises(ToolRefusal, match="the same"):
        replacements.apply("a\nb\n", Replacement("a\r\n", "a\n"), newline="\r\n")


@pytest.mark.parametrize("mark", ["x", "x\ny"])
def test_the_largest_file_may_be_made_and_nothing_larger(mark: str) -> None:
    """With ``x\ny`` the text has the other line end, and so has what replaces it."""
    written = mark.replace("\n", "\r\n")
    rest = "\r\n" + "-" * (MAX_TEXT_BYTES - 3 * len(written) - 2 - 6)
    text = written * 3 + rest
    edit = Replacement(mark, f"{mark}12", replace_all=True)
    after = replacements.apply(text, edit)
    assert after == f"{written}12" * 3 + rest
    assert len(after) == MAX_TEXT_BYTES
    with pytest.raises(ToolRefusal, match="larger than 2,097,152 bytes"):
        replacements.apply(text + "-", edit)
    shorter = Replacement(mark, "", replace_all=True)
    assert replacements.apply(text + "-" * 6, shorter) == rest + "-" * 6
