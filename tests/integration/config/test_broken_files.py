"""A file that is broken counts as it last was; the rest is used."""

import os

import pytest

from agents.config.load import LoadedConfig, load_config


def again(place, before: LoadedConfig) -> LoadedConfig:
    return load_config(
        str(place.workspace), env={}, server_env=place.server_env, last_sound=before.sound
    )


def named(name: str) -> dict:
    return {"options": {"initialize_as": name}}


@pytest.mark.parametrize(
    "broken", ['{"options": {', "[]", "\xff\xfe", '{"a": "\0"}', "", " \n", "x" * (2 << 20)]
)
def test_what_it_last_said_holds_however_it_is_broken(place, broken: str):
    place.write(place.project, named("X.md"))
    before = place.load()
    place.project.write_bytes(broken.encode("latin-1"))
    loaded = again(place, before)
    assert loaded.settings.initialize_as == "X.md"
    (problem,) = loaded.problems
    assert problem.file == str(place.project)
    assert problem.message.endswith("(until then its last valid content applies)")
    # And on, however often it is read.
    assert again(place, loaded).settings.initialize_as == "X.md"


def test_only_the_broken_file_stands_still(place):
    place.write(place.users_own, {"options": {"debug": False}})
    place.write(place.project, named("X.md"))
    before = place.load()
    place.write(place.project, "{")
    place.write(place.users_own, {"options": {"debug": True}})
    loaded = again(place, before)
    assert loaded.settings.initialize_as == "X.md"
    assert loaded.public["options"]["debug"] is True


def test_a_mended_file_counts_again(place):
    place.write(place.project, named("X.md"))
    before = place.load()
    place.write(place.project, "{")
    before = again(place, before)
    place.write(place.project, named("Y.md"))
    loaded = again(place, before)
    assert (loaded.settings.initialize_as, loaded.problems) == ("Y.md", ())


def test_a_file_that_is_taken_away_says_nothing_any_more(place):
    place.write(place.project, named("X.md"))
    before = place.load()
    place.project.unlink()
    before = again(place, before)
    assert before.settings.initialize_as == "AGENTS.md"
    place.write(place.project, "{")
    loaded = again(place, before)
    assert loaded.settings.initialize_as == "AGENTS.md"
    assert loaded.problems[0].message.endswith("(until then the file is ignored)")


def test_a_file_that_was_always_empty_is_no_problem(place):
    place.write(place.project, "")
    before = place.load()
    assert (before.problems, again(place, before).problems) == ((), ())


def test_a_fifo_in_its_place_does_not_hang_either(place):
    place.write(place.project, named("X.md"))
    before = place.load()
    place.project.unlink()
    os.mkfifo(place.project)
    assert again(place, before).settings.initialize_as == "X.md"
