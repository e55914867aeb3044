"""Ids that clients choose: one spelling, and a clear error for what is none."""

import pytest

from workspaces.client_ids import client_id_of
from workspaces.log.errors import BadField

ID = "0b1c2d3e-4f50-4a61-8b72-9c83ad94be05"


@pytest.mark.parametrize("text", [ID, ID.upper()])
def test_an_id_has_one_spelling(text: str) -> None:
    assert client_id_of(text) == ID


@pytest.mark.parametrize("text", ["", ID[:-1], ID + "0", ID.replace("-", ""), f"{{{ID}}}"])
def test_the_length_is_named_where_it_is_wrong(text: str) -> None:
    with pytest.raises(BadField, match=rf"invalid UUID length: {len(text)}$"):
        client_id_of(text)


def test_the_length_is_that_in_bytes() -> None:
    with pytest.raises(BadField, match=r"invalid UUID length: 4$"):
        client_id_of("éé")


@pytest.mark.parametrize("text", ["g" + ID[1:], ID.replace("-", "0"), "-" + ID[:-1]])
def test_what_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(BadField, match=r"invalid UUID format$"):
        client_id_of(text)
