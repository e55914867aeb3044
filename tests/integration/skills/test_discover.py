"""Finding skills on a real disk, whatever lies there."""

import os
from pathlib import Path

import pytest

from agents.skills.discover import FoundSkills, find_skills, read_skill
from agents.skills.skill import Health, InvalidSkill, SkillSource, SkillState


def write_skill(folder: Path, description: str = "Use it.", *, name: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "SKILL.md"
    text = f"---\nname: {name or folder.name}\ndescription: {description}\n---\nDo it.\n"
    file.write_text(text)
    return file


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def users(tmp_path: Path) -> Path:
    return tmp_path / "home" / "skills"


@pytest.fixture
def projects(workspace: Path) -> Path:
    return workspace / ".crush" / "skills"


def find(workspace: Path, *folders: Path) -> FoundSkills:
    return find_skills(str(workspace), [str(folder) for folder in folders])


def own(found: FoundSkills) -> dict[str, SkillSource]:
    return {s.name: s.location.source for s in found.skills if not s.is_builtin}


def own_states(found: FoundSkills) -> list[SkillState]:
    return [state for state in found.states if not state.path.startswith("crush://")]


def test_the_servers_own_skills_are_valid(workspace: Path) -> None:
    found = find(workspace)
    assert {skill.id for skill in found.skills} == {
        "crush://skills/crush-config/SKILL.md",
        "crush://skills/crush-hooks/SKILL.md",
    }
    assert {state.health for state in found.states} == {Health.NORMAL}
    assert b"crush.json" in read_skill(found.skills[0])


def test_it_finds_the_users_and_the_projects(workspace: Path, users: Path, projects: Path) -> None:
    write_skill(users / "one")
    write_skill(users / "group" / "two")
    write_skill(projects / "three")
    (users / "empty").mkdir()
    (users / ".hidden").mkdir()
    write_skill(users / ".hidden" / "four")
    found = find(workspace, users, projects, workspace / "missing")
    assert own(found) == {
        "two": SkillSource.USER,
        "one": SkillSource.USER,
        "three": SkillSource.PROJECT,
    }


def test_a_folder_may_be_a_skill_itself(workspace: Path, users: Path) -> None:
    write_skill(users / "one")
    assert own(find(workspace, users / "one")) == {"one": SkillSource.USER}


def test_the_nearest_of_one_name_wins(workspace: Path, users: Path, projects: Path) -> None:
    write_skill(users / "crush-config", "the user's")
    write_skill(users / "same", "the user's")
    file = write_skill(projects / "same", "the project's")
    found = find(workspace, users, projects)
    assert own(found) == {"crush-config": SkillSource.USER, "same": SkillSource.PROJECT}
    assert [s.description for s in found.skills if s.name == "same"] == ["the project's"]
    assert str(file) in {state.path for state in found.states}


def test_disabled_ones_are_found_and_not_used(workspace: Path, users: Path) -> None:
    write_skill(users / "one")
    found = find(workspace, users)
    names = {skill.name for skill in found.enabled(frozenset({"one", "crush-hooks"}))}
    assert names == {"crush-config"}


def test_a_broken_one_is_a_state_and_breaks_nothing(workspace: Path, users: Path) -> None:
    write_skill(users / "good")
    bad = write_skill(users / "bad", name="other")
    binary = write_skill(users / "binary")
    binary.write_bytes(b"---\nname: binary\0\n---")
    latin = write_skill(users / "latin")
    latin.write_bytes("---\nname: latin\ndescription: é\n---".encode("latin-1"))
    fifo = users / "fifo" / "SKILL.md"
    fifo.parent.mkdir()
    os.mkfifo(fifo)
    folder = users / "folder" / "SKILL.md"
    folder.mkdir(parents=True)
    found = find(workspace, users)
    assert own(found) == {"good": SkillSource.USER}
    assert own_states(found) == [
        SkillState(
            "bad", str(bad), Health.ERROR, "name: 'other' differs from the folder's name 'bad'"
        ),
        SkillState("binary", str(binary), Health.ERROR, "it is not a text file"),
        SkillState("fifo", str(fifo), Health.ERROR, "it is not a regular file"),
        SkillState("folder", str(folder), Health.ERROR, "it is not a regular file"),
        SkillState("good", str(users / "good" / "SKILL.md"), Health.NORMAL),
        SkillState("latin", str(latin), Health.ERROR, "it is not UTF-8 text"),
    ]


def test_only_the_beginning_of_a_huge_file_is_read(workspace: Path, users: Path) -> None:
    file = write_skill(users / "huge")
    with file.open("a") as text:
        text.write("é" * 3_000_000)
    found = find(workspace, users)
    assert own(found) == {"huge": SkillSource.USER}
    assert len(read_skill(found.skills[-1])) == 1 << 20


def test_a_front_matter_that_never_ends_is_an_error(workspace: Path, users: Path) -> None:
    write_skill(users / "endless").write_text("---\n" + "a: b\n" * 100_000)
    (state,) = own_states(find(workspace, users))
    assert state.error == "the front matter is not closed with ---"


def test_the_users_links_are_followed(workspace: Path, users: Path, tmp_path: Path) -> None:
    write_skill(tmp_path / "store" / "one")
    users.mkdir(parents=True)
    (users / "one").symlink_to(tmp_path / "store" / "one")
    (users / "round").symlink_to(users)
    found = find(workspace, users)
    assert own(found) == {"one": SkillSource.USER}
    assert found.skills[-1].location.folder == str(tmp_path / "store" / "one")


def test_a_projects_links_must_stay_in_the_project(
    workspace: Path, projects: Path, tmp_path: Path
) -> None:
    outside = write_skill(tmp_path / "outside" / "secret")
    write_skill(workspace / "lib" / "inside")
    projects.mkdir(parents=True)
    (projects / "secret").symlink_to(outside.parent)
    (projects / "inside").symlink_to(workspace / "lib" / "inside")
    (projects / "group").symlink_to(tmp_path / "outside")
    (projects / "file").mkdir()
    (projects / "file" / "SKILL.md").symlink_to(outside)
    found = find(workspace, projects)
    assert own(found) == {"inside": SkillSource.PROJECT}
    errors = {s.name: s.error for s in own_states(found) if s.health is Health.ERROR}
    assert errors == {
        "file": "a link leads out of the workspace",
        "secret": "a link leads out of the workspace",
    }


def test_a_project_reached_by_another_name_is_a_project_still(
    workspace: Path, projects: Path, tmp_path: Path
) -> None:
    write_skill(projects / "one")
    (tmp_path / "alias").symlink_to(workspace)
    found = find(workspace, tmp_path / "alias" / ".crush" / "skills")
    assert own(found) == {"one": SkillSource.PROJECT}


def test_names_that_are_no_text_are_passed_over(workspace: Path, users: Path) -> None:
    users.mkdir(parents=True)
    broken = os.fsencode(users) + b"/\xff"
    Path(os.fsdecode(broken)).mkdir()
    Path(os.fsdecode(broken), "SKILL.md").write_text("---\n---")
    assert own_states(find(workspace, users)) == []


def test_there_are_at_most_two_hundred(workspace: Path, users: Path) -> None:
    for number in range(210):
        write_skill(users / f"s{number}")
    assert len(find(workspace, users).states) == 200


def test_nothing_is_read_while_nothing_has_changed(workspace: Path, users: Path) -> None:
    file = write_skill(users / "one")
    first = find(workspace, users)
    assert find_skills(str(workspace), [str(users)], known=first) is first
    write_skill(users / "one", "Something longer.")
    second = find_skills(str(workspace), [str(users)], known=first)
    assert second.skills[-1].description == "Something longer."
    file.unlink()
    assert own(find_skills(str(workspace), [str(users)], known=second)) == {}


def test_a_skill_that_is_gone_cannot_be_read(workspace: Path, users: Path) -> None:
    file = write_skill(users / "one")
    skill = find(workspace, users).skills[-1]
    file.unlink()
    with pytest.raises(InvalidSkill, match="does not exist"):
        read_skill(skill)
