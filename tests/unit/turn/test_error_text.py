"""An error's title fits one line, and nothing of the error is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.turn.error_text import TITLE_CHARS, split_error


@pytest.mark.parametrize(
    ("text", "title", "details"),
    [
        ("", "", ""),
        ("The model's reply broke off.", "The model's reply broke off.", ""),
        (
            "Fake refused the API key: status 403: No budget. Set api_key in crush.json.",
            "Fake refused the API key",
            "status 403: No budget. Set api_key in crush.json.",
        ),
        ("It does not fit. Summarize it.", "It does not fit.", "Summarize it."),
        ("http://a:80/x failed", "http://a:80/x failed", ""),
        ("one\ntwo\nthree", "one", "two\nthree"),
        ("  one \t more\n\n  two", "one more", "two"),
    ],
)
def test_the_first_statement_is_the_title(text: str, title: str, details: str) -> None:
    assert split_error(text) == (title, details)


def test_a_long_statement_is_cut_and_stands_whole_in_the_details() -> None:
    text = "word " * 40 + "end. Do this."
    title, details = split_error(text)
    assert title.endswith("word…")
    assert details == text


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("x" * TITLE_CHARS, "x" * TITLE_CHARS),  # as long as a line
        ("x" * (TITLE_CHARS + 1), "x" * (TITLE_CHARS - 1) + "…"),
        ("one " + "x" * TITLE_CHARS, "one…"),
        ("x" * (TITLE_CHARS - 2) + " two words", "x" * (TITLE_CHARS - 2) + "…"),
        # White space is not counted where it is not shown.
        ("a " * 10 + " " * TITLE_CHARS + "b", "a " * 10 + "b"),
    ],
)
def test_a_title_is_cut_behind_a_word_where_it_is_longer_than_a_line(text: str, title: str) -> None:
    details = text if title.endswith("…") else ""
    assert split_error(text) == (title, details)


@given(st.text() | st.lists(st.sampled_from(["a", "b: ", ". ", "\n", " ", "x" * 50])).map("".join))
def test_the_title_is_one_short_line_and_no_word_is_lost(text: str) -> None:
    title, details = split_error(text)
    assert len(title) <= TITLE_CHARS
    assert len(title.splitlines()) <= 1
    kept = (title + details).translate(str.maketrans("", "", ":;…"))
    for word in text.translate(str.maketrans("", "", ":;…")).split():
        assert word in " ".join(kept.split()) or word in kept
