"""When a skill is valid, and what is said when it is not."""

from pathlib import Path

import pytest

from agents.skills.skill import (
    InvalidSkill,
    Skill,
    SkillLocation,
    SkillSource,
    is_skill_file,
    skill_of,
    skill_of_file,
)


def place(name: str = "mend-it", source: SkillSource = SkillSource.USER) -> SkillLocation:
    return SkillLocation(
        f"/skills/{name}/SKILL.md", f"/real/{name}", f"/real/{name}/SKILL.md", source
    )


def written(front: str, name: str = "mend-it") -> Skill:
    return skill_of(f"---\n{front}\n---\nDo it.", place(name))


def refused(front: str, name: str = "mend-it") -> str:
    with pytest.raises(InvalidSkill) as invalid:
        written(front, name)
    return str(invalid.value)


def test_everything_that_a_skill_may_say_is_read() -> None:
    skill = written(
        "name: mend-it\ndescription: Use when it is broken.\nlicense: MIT\ncompatibility: needs git\n"
        "metadata:\n  author: me\nuser-invocable: true\ndisable-model-invocation: yes\nallowed-tools: [a, b]"
    )
    assert skill == Skill(
        name="mend-it",
        description="Use when it is broken.",
        location=place(),
        license="MIT",
        compatibility="needs git",
        metadata={"author": "me"},
        user_invocable=True,
        model_invocable=False,
    )
    assert skill.label == "user:mend-it"
    assert skill.id == "/skills/mend-it/SKILL.md"


def test_the_other_spelling_counts_too() -> None:
    assert written("name: mend-it\ndescription: d\nuser_invocable: true").user_invocable


def test_by_default_models_are_told_and_people_are_not() -> None:
    skill = written("name: mend-it\ndescription: d")
    assert skill.model_invocable
    assert not skill.user_invocable


def test_one_of_ours_has_an_id_without_a_path() -> None:
    skill = skill_of("---\nname: a\ndescription: d\n---", place("a", SkillSource.SYSTEM))
    assert skill.id == "crush://skills/a/SKILL.md"
    assert skill.label == "system:a"
    assert skill.is_builtin


@pytest.mark.parametrize(
    ("front", "sentence"),
    [
        ("description: d", "name is missing"),
        ("name: ''\ndescription: d", "name is missing"),
        ("name: mend-it", "description is missing"),
        ("name: mend-it\ndescription: [d]", "description: must be a string"),
        ("name: other\ndescription: d", "name: 'other' differs from the folder's name 'mend-it'"),
        (f"name: {'a' * 65}\ndescription: d", "name: must have at most 64 characters"),
        (
            f"name: mend-it\ndescription: {'d' * 1025}",
            "description: must have at most 1024 characters",
        ),
        (
            f"name: mend-it\ndescription: d\ncompatibility: {'d' * 501}",
            "compatibility: must have at most 500 characters",
        ),
        (
            "name: mend-it\ndescription: d\nuser-invocable: maybe",
            "user-invocable: must be true or false",
        ),
        ("nonsense", "line 2: is not 'name: value'"),
    ],
)
def test_it_says_what_is_wrong(front: str, sentence: str) -> None:
    assert refused(front) == sentence


@pytest.mark.parametrize(
    "name", ["Mend-It", "mend--it", "-mend", "mend-", "mend_it", "mend it", "ä"]
)
def test_a_name_is_lower_case_with_single_hyphens(name: str) -> None:
    said = refused(f"name: {name}\ndescription: d", name)
    assert said == "name: must be lower-case letters, digits and single hyphens"


def test_a_front_matter_has_a_bounded_number_of_lines() -> None:
    assert "more than 500 lines" in refused("name: mend-it\n" * 501)


def test_a_front_matter_has_a_bounded_number_of_characters() -> None:
    assert "more than 16384 characters" in refused(f"name: mend-it\nlicense: {'x' * 16_384}")


def test_the_files_of_a_skill_are_those_in_its_folder() -> None:
    skill = written("name: mend-it\ndescription: d")
    assert is_skill_file(Path("/real/mend-it/SKILL.md"), [skill])
    assert skill_of_file(Path("/real/mend-it/scripts/run.py"), [skill]) is skill
    assert not is_skill_file(Path("/real/mend-it"), [skill])
    assert not is_skill_file(Path("/real/mend-it-too/SKILL.md"), [skill])
    assert not is_skill_file(Path("/real/mend-it/SKILL.md"), [])


def test_a_linked_skill_md_is_a_file_of_its_skill_and_its_neighbours_are_not() -> None:
    linked = SkillLocation("/skills/a/SKILL.md", "/skills/a", "/store/a.md", SkillSource.USER)
    skill = skill_of("---\nname: a\ndescription: d\n---", linked)
    assert is_skill_file(Path("/store/a.md"), [skill])
    assert not is_skill_file(Path("/store/b.md"), [skill])
