import os

import pytest

from agents.config.context_files import names_in

WANTED = frozenset({"AGENTS.md", ".cursor", "absent"})
LONG_AGO = (1_000_000_000, 1_000_000_000)


def test_it_tells_what_is_there_whatever_it_is(tmp_path):
    (tmp_path / "AGENTS.md").symlink_to(tmp_path / "nowhere")
    (tmp_path / ".cursor").mkdir()
    (tmp_path / "other").touch()

    assert names_in(str(tmp_path), WANTED) == {"AGENTS.md", ".cursor"}
    assert names_in(str(tmp_path), frozenset({"other"})) == {"other"}


def test_what_comes_and_goes_is_noticed_at_once(tmp_path):
    os.utime(tmp_path, LONG_AGO)
    assert names_in(str(tmp_path), WANTED) == frozenset()

    for _ in range(50):
        (tmp_path / "AGENTS.md").touch()
        assert names_in(str(tmp_path), WANTED) == {"AGENTS.md"}
        (tmp_path / "AGENTS.md").unlink()
        assert names_in(str(tmp_path), WANTED) == frozenset()


def test_another_folder_in_its_place_is_looked_at_anew(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    (second / "AGENTS.md").touch()
    os.utime(first, LONG_AGO)
    os.utime(second, LONG_AGO)
    assert names_in(str(first), WANTED) == frozenset()

    first.rmdir()
    second.rename(first)
    os.utime(first, LONG_AGO)

    assert names_in(str(first), WANTED) == {"AGENTS.md"}


def test_an_unchanged_folder_is_asked_once(tmp_path):
    os.utime(tmp_path, LONG_AGO)
    names_in(str(tmp_path), WANTED)

    (tmp_path / "AGENTS.md").touch()
    os.utime(tmp_path, LONG_AGO)  # as if nothing had happened

    assert names_in(str(tmp_path), WANTED) == frozenset()


def test_a_folder_that_cannot_be_asked_is_an_error(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        names_in(str(tmp_path / "gone"), WANTED)
    with pytest.raises(ValueError, match="null"):
        names_in("/a\0b", WANTED)
