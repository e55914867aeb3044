"""RFC 3339 times of the fleet's files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.fleet.records import NANOS, as_rfc3339, parse_rfc3339

SECOND = 1_795_000_980 * NANOS


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-18T09:23:00Z",
        "2026-11-18T09:23:00.613Z",
        "2026-11-18T09:23:00.613725Z",
        "2026-11-18T09:23:00.613725835Z",
        "1969-12-31T23:59:59.500Z",
    ],
)
def test_0_3_6_and_9_digits_are_written_as_they_were_read(text):
    assert as_rfc3339(parse_rfc3339(text)) == text


def test_an_offset_and_odd_digits_are_understood():
    assert parse_rfc3339("2026-11-18T10:23:00.5+01:00") == parse_rfc3339("2026-11-18T09:23:00.500Z")
    assert parse_rfc3339("2026-11-18t09:23:00z") == parse_rfc3339("2026-11-18T09:23:00Z")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-11-18",
        "2026-11-18T09:23:00",
        "2026-13-18T09:23:00Z",
        "2026-11-18T25:00:00Z",
        "2026-11-18T09:23:00+99:99",
        "2026-11-18T09:23:00.Z",
        "٢٠٢٦-11-18T09:23:00Z",
        "2026-11-18T09:23:00." + "1" * 80 + "Z",
    ],
)
def test_anything_else_is_no_time(text):
    with pytest.raises(ValueError, match=r"."):
        parse_rfc3339(text)


@given(st.integers(0, 4_000_000_000 * NANOS))
def test_no_nanosecond_is_lost(nanos):
    assert parse_rfc3339(as_rfc3339(nanos)) == nanos
