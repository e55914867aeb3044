"""Ids by their beginning."""

import pytest
from django.core.management.base import CommandError

from crushsite.client.finding import one_of

ROWS = [{"id": "aaaa-1111"}, {"id": "aaaa-2222"}, {"id": "bbbb-3333"}]


def found(wanted: str) -> str:
    return str(one_of(ROWS, wanted, what="session", listing="sessions")["id"])


@pytest.mark.parametrize("wanted", ["bbbb", "bbbb-3333", "bbbb-33"])
def test_a_beginning_that_only_one_has_is_enough(wanted: str) -> None:
    assert found(wanted) == "bbbb-3333"


def test_a_whole_id_wins_over_a_beginning() -> None:
    rows = [{"id": "aaaa"}, {"id": "aaaa-1"}]
    assert one_of(rows, "aaaa", what="run", listing="runs")["id"] == "aaaa"


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("aaaa", "Several sessions begin with 'aaaa': aaaa-1111, aaaa-2222."),
        ("cccc", "There is no session 'cccc'."),
        ("bbb", "Give at least 4 characters"),
        ("", "There is no session ''."),
    ],
)
def test_what_does_not_name_one_is_an_error(wanted: str, sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence.replace(".", r"\.")):
        found(wanted)
