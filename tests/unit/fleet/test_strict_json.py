"""The JSON of the sub-agent wire: what is refused, and which numbers and keys it keeps."""

import math
from typing import Any

import pytest

from agents.fleet.wire.strict_json import DEPTH_LIMIT, BadJson, Pairs, parse


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NaN",
        "[Infinity]",
        "-Infinity",
        "1e999",
        "01",
        "{} {}",
        "[1,]",
        '"\\ud800"',  # half of a surrogate pair
        '{"\\udc00": 1}',
        '"\ud800"',
        "[" * (DEPTH_LIMIT + 1) + "]" * (DEPTH_LIMIT + 1),
        "[" * 100_000,
    ],
)
def test_it_refuses_what_the_other_parser_refuses(text: str) -> None:
    with pytest.raises(BadJson):
        parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" \t\r\n null ", None),
        ('"\\ud83d\\ude00"', "\N{GRINNING FACE}"),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("18446744073709551616", float(2**64)),  # too large for a whole number of theirs
        ("123456789012345678901", 123456789012345678901.0),
        ('{"a": [true, {"b": 1.5}]}', {"a": [True, {"b": 1.5}]}),
    ],
)
def test_it_reads_values_as_the_other_parser_does(text: str, value: Any) -> None:
    read = parse(text)
    assert read == value
    assert type(read) in {type(value), Pairs}


def test_a_negative_zero_keeps_its_sign() -> None:
    assert math.copysign(1, parse("-0")) == -1


def test_the_deepest_allowed_value_is_read() -> None:
    assert parse("[" * DEPTH_LIMIT + "]" * DEPTH_LIMIT)


def test_an_object_knows_its_repeated_keys() -> None:
    read = parse('{"a": 1, "b": 2, "a": 3}')
    assert read == {"a": 3, "b": 2}
    assert read.doubled == {"a"}


@pytest.mark.timeout(60)
def test_a_repeated_key_in_a_large_object_takes_no_time_for_each_pair_of_keys() -> None:
    keys = ",".join(f'"{number}":0' for number in range(300_000))
    assert parse(f'{{{keys},"7":1}}').doubled == {"7"}
