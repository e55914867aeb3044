from agents.config.sections.options import SKILL_PATHS_LIMIT, skill_folders


def test_the_user_s_come_first_then_what_is_configured_then_the_project_s():
    folders = skill_folders("/w", ["/h/.config/crush/skills", "mine", "../beside"], server_env={})
    assert folders == (
        "/h/.config/crush/skills",
        "/w/mine",
        "/beside",
        "/w/.crush/skills",
        "/w/.agents/skills",
        "/w/.claude/skills",
    )


def test_the_server_s_variable_names_one_more():
    assert skill_folders("/w", [], server_env={"CRUSH_SKILLS_DIR": "/s/"})[0] == "/s"
    assert len(skill_folders("/w", [], server_env={"CRUSH_SKILLS_DIR": "relative"})) == 3


def test_none_comes_twice_and_there_are_not_endlessly_many():
    assert len(skill_folders("/w", [".crush/skills", "", " ", "a\0b"], server_env={})) == 3
    many = [str(number) for number in range(10_000)]
    assert len(skill_folders("/w", many, server_env={})) == SKILL_PATHS_LIMIT + 3
