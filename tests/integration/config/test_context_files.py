import os

import pytest

from agents.config.context_files import (
    FILE_LIMIT,
    FILES_LIMIT,
    TOTAL_LIMIT,
    find_context_files,
)


def names(place, **paths) -> list[str]:
    files = find_context_files(str(place.workspace), **paths)
    return [os.path.relpath(file.path, place.workspace) for file in files]


def test_well_known_files_are_found_with_their_text(place):
    for name in ("AGENTS.md", "CLAUDE.local.md", "gemini.md", ".cursorrules"):
        (place.workspace / name).write_text(f"in {name}")
    files = find_context_files(str(place.workspace))
    assert [file.text for file in files] == [
        "in AGENTS.md",
        "in CLAUDE.local.md",
        "in gemini.md",
        "in .cursorrules",
    ]


def test_a_folder_gives_all_its_files_in_order(place):
    rules = place.workspace / ".cursor" / "rules"
    (rules / "deep").mkdir(parents=True)
    for name in ("b.md", "a.md", "deep/c.md"):
        (rules / name).write_text(name)
    assert names(place) == [".cursor/rules/a.md", ".cursor/rules/b.md", ".cursor/rules/deep/c.md"]


def test_configured_paths_and_the_users_own_are_read(place):
    (place.workspace / "docs").mkdir()
    (place.workspace / "docs" / "style.md").write_text("style")
    (place.home / "AGENTS.md").write_text("mine")
    files = find_context_files(
        str(place.workspace),
        context_paths=["docs/style.md", "missing.md"],
        global_context_paths=[str(place.home / "AGENTS.md"), "relative.md"],
    )
    assert [file.text for file in files] == ["mine", "style"]


def test_nothing_outside_of_the_workspace_is_read_for_it(place):
    secret = place.home / "secret.md"
    secret.write_text("secret")
    (place.home / "folder").mkdir()
    (place.home / "folder" / "x.md").write_text("secret")
    (place.workspace / "AGENTS.md").symlink_to(secret)
    (place.workspace / "linked").symlink_to(place.home / "folder")
    paths = [str(secret), "../../home/secret.md", "linked", "linked/x.md", "/etc/hostname", "/"]
    assert names(place, context_paths=paths) == []


def test_a_workspace_that_is_itself_a_link_is_read(place):
    (place.workspace / "AGENTS.md").write_text("x")
    link = place.home / "link"
    link.symlink_to(place.workspace)
    assert len(find_context_files(str(link))) == 1


def test_one_file_by_two_names_is_read_once(place):
    (place.workspace / "AGENTS.md").write_text("x")
    (place.workspace / "CLAUDE.md").symlink_to("AGENTS.md")
    os.link(place.workspace / "AGENTS.md", place.workspace / "GEMINI.md")
    assert names(place) == ["AGENTS.md"]


def test_a_fifo_a_loop_and_binary_are_left_out(place):
    os.mkfifo(place.workspace / "AGENTS.md")
    (place.workspace / "CRUSH.md").symlink_to("crush.md")
    (place.workspace / "crush.md").symlink_to("CRUSH.md")
    (place.workspace / "CLAUDE.md").write_bytes(b"a\0b")
    (place.workspace / "GEMINI.md").write_text(" \n")
    assert names(place) == []


def test_a_folder_that_links_to_itself_ends(place):
    rules = place.workspace / ".cursor" / "rules"
    rules.mkdir(parents=True)
    (rules / "self").symlink_to(".")
    (rules / "a.md").write_text("x")
    assert names(place) == [".cursor/rules/a.md"]


def test_a_large_file_is_cut_and_says_so(place):
    (place.workspace / "AGENTS.md").write_text("ä" * FILE_LIMIT)
    (file,) = find_context_files(str(place.workspace))
    assert len(file.text.encode()) < FILE_LIMIT + 100
    assert "left out" in file.text
    assert "\ufffd" not in file.text


def test_all_together_are_bounded(place):
    rules = place.workspace / ".cursor" / "rules"
    rules.mkdir(parents=True)
    for index in range(20):
        (rules / f"{index:02}.md").write_text("x" * FILE_LIMIT)
    files = find_context_files(str(place.workspace))
    assert sum(len(file.text) for file in files) <= TOTAL_LIMIT + 20 * 100


def test_the_number_of_files_is_bounded(place):
    rules = place.workspace / ".cursor" / "rules"
    rules.mkdir(parents=True)
    for index in range(FILES_LIMIT + 50):
        (rules / f"{index}.md").write_text("x")
    assert len(find_context_files(str(place.workspace))) == FILES_LIMIT


def test_text_that_is_not_utf8_is_read_as_far_as_it_goes(place):
    (place.workspace / "AGENTS.md").write_bytes(b"a\xffb")
    (file,) = find_context_files(str(place.workspace))
    assert file.text == "a\ufffdb"


def test_impossible_paths_raise_nothing(place):
    paths = ["a\0b", "x" * 10_000, "", ".", "..", "\ud800"]
    (place.workspace / "AGENTS.md").write_text("x")
    assert "AGENTS.md" in names(place, context_paths=paths[:2] + paths[4:])
    find_context_files("/nonexistent\0", context_paths=paths, global_context_paths=["/a\0b"])


def test_a_file_does_not_print_its_text(place):
    (place.workspace / "AGENTS.md").write_text("private")
    assert "private" not in repr(find_context_files(str(place.workspace)))


def texts(place, **paths) -> list[str]:
    return [file.text for file in find_context_files(str(place.workspace), **paths)]


def test_files_are_found_upward_from_the_farthest_to_the_nearest(place):
    above = place.workspace.parent
    (place.workspace / "AGENTS.md").write_text("nearest")
    (above / "CLAUDE.md").write_text("above")
    (above.parent / "AGENTS.md").write_text("farthest")
    (above / ".cursor" / "rules").mkdir(parents=True)
    (above / ".cursor" / "rules" / "a.md").write_text("rule above")
    (above / "README.md").write_text("no such file")
    (above / "sibling").mkdir()
    (above / "sibling" / "AGENTS.md").write_text("not above")
    assert texts(place) == ["farthest", "above", "rule above", "nearest"]


def test_the_users_own_folder_comes_first_and_is_not_read_twice(place):
    place.write(place.home / ".config/crush/CRUSH.md", "mine for all")
    (place.home / "AGENTS.md").write_text("mine at home")
    (place.workspace / "AGENTS.md").write_text("nearest")
    settings = place.load().settings
    assert texts(place, global_context_paths=settings.global_context_paths) == [
        "mine at home",
        "mine for all",
        "nearest",
    ]
    below_home = place.home / "project"
    below_home.mkdir()
    files = find_context_files(str(below_home), global_context_paths=settings.global_context_paths)
    assert [file.text for file in files] == ["mine at home", "mine for all"]


def test_a_link_above_does_not_lead_out_of_its_folder(place):
    secret = place.home / "secret.md"
    secret.write_text("secret")
    (place.workspace.parent / "AGENTS.md").symlink_to(secret)
    assert texts(place) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_another_user_s_file_above_is_not_read(place):
    foreign = place.workspace.parent / "AGENTS.md"
    foreign.write_text("do as I say")
    os.chown(foreign, 12345, 12345)
    own = place.workspace / "AGENTS.md"
    own.write_text("nearest")
    os.chown(own, 12345, 12345)  # in the workspace, whoever's
    assert texts(place) == ["nearest"]
    # A workspace of that user trusts that user.
    os.chown(place.workspace, 12345, 12345)
    assert texts(place) == ["do as I say", "nearest"]


def test_where_there_is_too_much_the_nearest_is_kept(place):
    rules = place.workspace.parent / ".cursor" / "rules"
    rules.mkdir(parents=True)
    for index in range(20):
        (rules / f"{index:02}.md").write_text("x" * FILE_LIMIT)
    (place.workspace / "AGENTS.md").write_text("nearest")
    found = texts(place)
    assert found[-1] == "nearest"
    assert sum(map(len, found)) <= TOTAL_LIMIT + 20 * 100


def test_an_absolute_path_in_the_workspace_may_be_configured(place):
    (place.workspace / "docs.md").write_text("docs")
    assert texts(place, context_paths=[str(place.workspace / "docs.md")]) == ["docs"]
