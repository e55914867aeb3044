"""A project's key."""

from agents.fleet.project_key import fnv1a_64, key_of


def test_the_key_is_the_path_and_a_hash():
    assert key_of("/home/dev/project") == "-home-dev-project-0975f39b"
    assert fnv1a_64(b"") == 0xCBF29CE484222325


def test_each_character_that_is_not_ascii_becomes_one_dash():
    assert key_of("/ü_é2").startswith("----2-")
