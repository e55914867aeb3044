from typing import Any

import pytest

from agents.tools import arguments
from agents.tools.contract import BadArguments


def refused(reader: Any, *args: Any, **options: Any) -> str:
    with pytest.raises(BadArguments) as caught:
        reader(*args, **options)
    return str(caught.value)


@pytest.mark.parametrize("value", [1, 1.5, True, [], {}])
def test_it_names_a_field_that_is_no_string(value: Any) -> None:
    assert refused(arguments.text, {"path": value}, "path", max_bytes=9).startswith(
        "path must be a string"
    )


def test_it_names_a_missing_field() -> None:
    assert "path is missing" in refused(arguments.text, {}, "path", max_bytes=9)


def test_it_takes_null_as_absent() -> None:
    assert arguments.text({"path": None}, "path", default="here", max_bytes=9) == "here"
    assert arguments.count({"limit": None}, "limit", default=7, most=9) == 7
    assert arguments.flag({"all": None}, "all") is False
    assert arguments.texts({"ignore": None}, "ignore", max_items=1, max_bytes=1) == ()


def test_it_counts_bytes_and_not_characters() -> None:
    assert "4 bytes; 3 are allowed" in refused(arguments.text, {"a": "éé"}, "a", max_bytes=3)


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_it_refuses_text_that_no_file_or_store_takes(value: str) -> None:
    assert refused(arguments.text, {"a": value}, "a", max_bytes=99).startswith("a ")


def test_it_refuses_blank_text_where_it_means_nothing() -> None:
    assert "must not be empty" in refused(arguments.text, {"a": " "}, "a", max_bytes=9, blank=False)


@pytest.mark.parametrize("value", [True, "3", 1.5, [], float("inf"), float("nan")])
def test_it_refuses_what_is_no_whole_number(value: Any) -> None:
    assert "whole number" in refused(arguments.count, {"n": value}, "n", default=0, most=9)


def test_it_bounds_numbers() -> None:
    assert arguments.count({"n": 10**30}, "n", default=0, most=9) == 9
    assert arguments.count({"n": 3.0}, "n", default=0, most=9) == 3
    assert "negative" in refused(arguments.count, {"n": -1}, "n", default=0, most=9)


def test_it_refuses_a_flag_that_is_no_boolean() -> None:
    assert "true or false" in refused(arguments.flag, {"all": "yes"}, "all")


def test_it_names_the_item_of_a_list() -> None:
    assert "ignore[1] must be a string" in refused(
        arguments.texts, {"ignore": ["a", 1]}, "ignore", max_items=9, max_bytes=9
    )
    assert "edits[0] must be an object" in refused(
        arguments.objects, {"edits": ["a"]}, "edits", max_items=9
    )


def test_it_bounds_lists() -> None:
    assert "2 items; 1 are allowed" in refused(
        arguments.objects, {"edits": [{}, {}]}, "edits", max_items=1
    )
    assert "must be a list" in refused(arguments.objects, {"edits": "[]"}, "edits", max_items=1)
