"""Which configuration files count, in which order, and what a load of them gives."""

import os
import time
from pathlib import Path

import pytest

from agents.config.find import find_candidates
from agents.config.load import fingerprint, load_config

RECORDED = {
    "$schema": "x",
    "models": {
        "large": {"max_tokens": 4096, "model": "fake-large", "provider": "fake"},
        "small": {"max_tokens": 4096, "model": "fake-small", "provider": "fake"},
    },
    "options": {"disable_default_providers": True, "disable_metrics": True},
    "providers": {
        "fake": {
            "name": "Fake",
            "type": "openai-compat",
            "base_url": "http://127.0.0.1:9000/v1",
            "api_key": "$FAKE_KEY",
            "models": [
                {
                    "id": "fake-large",
                    "name": "Fake Large",
                    "context_window": 200000,
                    "default_max_tokens": 4096,
                },
                {
                    "id": "fake-small",
                    "name": "Fake Small",
                    "context_window": 200000,
                    "default_max_tokens": 4096,
                },
            ],
        }
    },
}


def debug(name: str) -> dict:
    return {"options": {"initialize_as": name}}


def test_an_answer_has_the_recorded_shape(place):
    place.write(place.project, RECORDED)
    model = {
        "can_reason": False,
        "context_window": 200000,
        "cost_per_1m_in": 0,
        "cost_per_1m_in_cached": 0,
        "cost_per_1m_out": 0,
        "cost_per_1m_out_cached": 0,
        "default_max_tokens": 4096,
        "supports_attachments": False,
    }
    loaded = place.load({"FAKE_KEY": "sk-expanded"})
    assert loaded.problems == ()
    assert loaded.public == {
        "$schema": "x",
        "models": RECORDED["models"],
        "options": {
            "attribution": {"generated_with": True, "trailer_style": "assisted-by"},
            "context_paths": [".cursor/rules/", ".cursorrules", ".github/copilot-instructions.md"],
            "data_directory": f"{place.workspace}/.crush",
            "disable_default_providers": True,
            "disable_metrics": True,
            "global_context_paths": [
                f"{place.home}/AGENTS.md",
                f"{place.home}/.config/crush/CRUSH.md",
            ],
            "initialize_as": "AGENTS.md",
            "skills_paths": [
                f"{place.home}/.config/crush/skills",
                f"{place.home}/.config/agents/skills",
                f"{place.home}/.agents/skills",
            ],
            "tui": {"completions": {"max_depth": 2, "max_items": 100}},
        },
        "providers": {
            "fake": {
                "id": "fake",
                "name": "Fake",
                "type": "openai-compat",
                "base_url": "http://127.0.0.1:9000/v1",
                "api_key": "$FAKE_KEY",
                "models": [
                    model | {"id": "fake-large", "name": "Fake Large"},
                    model | {"id": "fake-small", "name": "Fake Small"},
                ],
            }
        },
        "tools": {"ls": {"max_depth": 2, "max_items": 100}},
    }
    assert loaded.settings.providers["fake"].api_key == "sk-expanded"
    assert "sk-expanded" not in repr(loaded)


def test_with_no_file_at_all_a_client_finds_itself_configured(place):
    public = place.load().public
    assert public["models"]["large"] == {
        "provider": "offline",
        "model": "offline-large",
        "max_tokens": 4096,
    }
    assert public["providers"]["offline"]["name"] == "Offline (built in)"
    assert isinstance(public["options"]["tui"], dict)
    assert Path(public["options"]["data_directory"]).is_absolute()


def test_each_file_wins_over_those_before_it(place):
    (place.workspace.parent / ".git").mkdir()
    order = [
        place.users_own,
        place.stored_for_user,
        place.workspace.parent / "crush.json",
        place.workspace.parent / ".crush.json",
        place.project,
        place.workspace / ".crush.json",
        place.stored_for_workspace,
    ]
    for file in order:
        place.write(file, debug(file.parent.name + "-" + file.name))
        assert place.load().settings.initialize_as == file.parent.name + "-" + file.name


def test_a_model_stored_for_the_workspace_wins_over_the_projects(place):
    place.write(place.project, RECORDED)
    place.write(
        place.stored_for_workspace,
        {"models": {"large": {"model": "fake-small", "provider": "fake"}}},
    )
    loaded = place.load({"FAKE_KEY": "k"})
    assert loaded.public["models"]["large"] == {
        "model": "fake-small",
        "provider": "fake",
        "max_tokens": 4096,
    }
    assert loaded.settings.large.max_tokens == 0


@pytest.mark.parametrize("as_folder", [True, False])
def test_the_users_own_may_lie_elsewhere(place, as_folder: bool):
    file = place.write(place.home / "elsewhere" / "crush.json", debug("X.md"))
    place.server_env["CRUSH_GLOBAL_CONFIG"] = str(file.parent if as_folder else file)
    assert place.load().settings.initialize_as == "X.md"


def test_stored_choices_may_lie_elsewhere(place):
    place.write(place.home / "kept" / "crush.json", debug("X.md"))
    place.server_env["CRUSH_GLOBAL_DATA"] = str(place.home / "kept")
    assert place.load().settings.initialize_as == "X.md"


def test_a_clients_variables_choose_no_files(place, tmp_path):
    place.write(tmp_path / "foreign" / "crush.json", debug("X.md"))
    env = {"CRUSH_GLOBAL_CONFIG": str(tmp_path / "foreign"), "HOME": str(tmp_path / "foreign")}
    assert place.load(env).settings.initialize_as == "AGENTS.md"


def test_xdg_folders_are_followed(place):
    place.write(place.home / "xdg" / "crush" / "crush.json", debug("X.md"))
    place.server_env["XDG_CONFIG_HOME"] = str(place.home / "xdg")
    assert place.load().settings.initialize_as == "X.md"
    place.server_env["XDG_CONFIG_HOME"] = "relative"
    assert place.load().settings.initialize_as == "AGENTS.md"


def test_a_broken_file_is_told_and_the_rest_is_used(place):
    place.write(place.users_own, RECORDED)
    place.write(place.project, '{\n  "options": {,}\n}')
    loaded = place.load({"FAKE_KEY": "k"})
    (problem,) = loaded.problems
    assert (problem.file, problem.line) == (str(place.project), 2)
    assert loaded.settings.large.provider == "fake"


def test_a_wrong_type_is_told_with_its_file_and_key(place):
    place.write(place.project, {"options": {"debug": "yes", "initialize_as": "X.md"}})
    loaded = place.load()
    (problem,) = loaded.problems
    assert (problem.file, problem.key) == (str(place.project), "options.debug")
    assert loaded.settings.initialize_as == "X.md"


def test_a_fifo_in_place_of_a_file_does_not_hang(place):
    os.mkfifo(place.project)
    assert "not a regular file" in str(place.load().problems[0])


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_above_the_workspace_is_not_used(place):
    (place.workspace.parent / ".git").mkdir()
    file = place.write(place.workspace.parent / "crush.json", debug("X.md"))
    os.chown(file, 12345, 12345)
    loaded = place.load()
    assert loaded.settings.initialize_as == "AGENTS.md"
    assert "another user" in str(loaded.problems[0])


def test_the_data_directory_is_given_or_configured_or_the_default(place, tmp_path):
    assert place.load().data_dir == f"{place.workspace}/.crush"
    place.write(place.project, {"options": {"data_directory": "state"}})
    place.write(place.workspace / "state" / "crush.json", debug("X.md"))
    loaded = place.load()
    assert loaded.public["options"]["data_directory"] == f"{place.workspace}/state"
    assert loaded.settings.initialize_as == "X.md"
    assert place.load(data_dir=str(tmp_path / "d")).data_dir == str(tmp_path / "d")


def test_tools_and_summaries_are_settings(place):
    place.write(place.users_own, {"permissions": {"allowed_tools": ["view"]}})
    place.write(
        place.project,
        {
            "permissions": {"allowed_tools": ["bash:execute"]},
            "options": {"disabled_tools": ["fetch"], "disable_auto_summarize": True},
        },
    )
    settings_read = place.load().settings
    assert settings_read.allowed_tools == {"view", "bash:execute"}
    assert settings_read.disabled_tools == {"fetch"}
    assert not settings_read.auto_summarize


def test_a_project_cannot_have_files_outside_of_it_read(place):
    place.write(place.project, {"options": {"global_context_paths": ["/etc/hostname"]}})
    loaded = place.load()
    assert "/etc/hostname" not in loaded.settings.global_context_paths
    assert loaded.problems[0].key == "options.global_context_paths"


def test_the_user_may_name_files_outside_of_a_workspace(place):
    place.write(
        place.users_own, {"options": {"context_paths": ["~/rules.md", "/x/y.md", "local.md"]}}
    )
    settings_read = place.load().settings
    assert f"{place.home}/rules.md" in settings_read.global_context_paths
    assert "/x/y.md" in settings_read.global_context_paths
    assert settings_read.context_paths[-1] == "local.md"


def test_the_fingerprint_changes_with_every_kind_of_change(place):
    loaded = place.load()
    files = loaded.files
    assert loaded.mark == fingerprint(files)
    seen = {loaded.mark}
    for change in (
        lambda: place.write(place.project, {}),
        lambda: place.write(place.project, {"options": {}}),
        lambda: place.project.rename(place.workspace / ".crush.json"),
        lambda: place.write(place.stored_for_workspace, {}),
        lambda: place.write(place.users_own, {}),
        lambda: place.write(place.stored_for_user, {}),
        lambda: place.users_own.unlink(),
    ):
        change()
        mark = fingerprint(files)
        assert mark not in seen
        seen.add(mark)
    assert fingerprint(files) == fingerprint(files)


def test_a_deep_workspace_has_bounded_candidates():
    candidates = find_candidates("/" + "d/" * 2_000, server_env={"HOME": "/h"})
    assert len(candidates.files) < 200


def test_a_workspace_that_is_the_users_config_folder_reads_its_file_once(place):
    place.write(place.users_own, {"options": {"context_paths": ["x"], "debug": "no"}})
    loaded = load_config(str(place.users_own.parent), env={}, server_env=place.server_env)
    assert len(loaded.problems) == 1


def test_loading_a_small_project_is_quick(place):
    place.write(place.project, RECORDED)
    place.load()
    times = []
    for _ in range(20):
        started = time.perf_counter()
        place.load({"FAKE_KEY": "k"})
        times.append(time.perf_counter() - started)
    assert min(times) < 0.05  # a tenth of that on a quiet machine


@pytest.mark.parametrize("path", ["/nonexistent/x", "/", "/a\0b"])
def test_an_impossible_workspace_raises_nothing(place, path: str):
    assert load_config(path, env={}, server_env=place.server_env).public["providers"]
