"""A project's key, and the set of ids seen."""

import pytest

from agents.fleet.documents import BadDocument
from agents.fleet.project_key import fnv1a_64, key_of, project_key
from agents.fleet.seen import CAPACITY, Seen


def test_the_key_is_the_path_and_a_hash():
    assert key_of("/home/dev/project") == "-home-dev-project-0975f39b"
    assert fnv1a_64(b"") == 0xCBF29CE484222325


def test_each_character_that_is_not_ascii_becomes_one_dash():
    assert key_of("/ü_é2").startswith("----2-")


def test_a_link_has_the_key_of_its_target(tmp_path):
    place = tmp_path / "real"
    place.mkdir()
    (tmp_path / "link").symlink_to(place)
    assert project_key(tmp_path / "link") == project_key(place)


def test_a_second_sight_is_not_admitted():
    seen = Seen()
    assert seen.admit("a")
    assert not seen.admit("a")


def test_the_oldest_gives_way():
    seen = Seen(str(number) for number in range(CAPACITY + 1))
    assert len(seen) == CAPACITY
    assert "0" not in seen
    assert "1" in seen


def test_it_is_kept_as_a_plain_array():
    assert Seen(["b", "a"]).encode() == b'["b","a"]'
    again = Seen.decode(b'["b","a"]')
    assert not again.admit("a")


@pytest.mark.parametrize("data", [b"{}", b"[1]", b"", b"["])
def test_what_is_no_array_of_texts_is_refused(data):
    with pytest.raises(BadDocument):
        Seen.decode(data)
