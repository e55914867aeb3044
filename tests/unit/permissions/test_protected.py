"""Files that programs obey are known by their names, however they are spelt."""

from __future__ import annotations

import pytest

from permissions.policy.protected import covers_folder, is_protected


@pytest.mark.parametrize(
    "path",
    [
        "/w/.git/config", "/w/.git", "/w/sub/.git/hooks/pre-commit", "/w/.GIT/config", "/w/.g\u200cit/config",
        "/w/.ｇit/config", "/w/crush.json", "/w/.crush.json", "/w/sub/crush.json", "/w/Crush.JSON", "/w/.crush/x",
        "/w/crushrc", "/w/.crushrc", "/w/.envrc", "/w/.agents/skills/x/SKILL.md", "/w/.crush/skills/x",
        "/w/.claude/skills/x/run.sh", "/w/.cursor/skills/x", "/home/u/.bashrc", "/home/u/.profile",
        "/home/u/.zshrc", "/home/u/.bash_profile", "/home/u/.zshenv", "/home/u/.config/fish/config.fish",
        "/w/mise.toml", "/w/.mise.toml", "/w/.mise/config.toml", "/w/.tool-versions", "/w/.husky/pre-commit",
        "/w/.githooks/x", "/home/u/.gitconfig", "/home/u/.config/git/config", "/home/u/.ssh/authorized_keys",
        "/home/u/.config/crush/crush.json", "/w/own/skills/x", "/w/own", "/w/OWN/skills/x",
    ],
)  # fmt: skip
def test_what_programs_obey_is_protected(path: str) -> None:
    assert is_protected(path, workspace="/w", more=["/w/own"])


@pytest.mark.parametrize(
    "path",
    [
        "/w/a.py", "/w/.gitignore", "/w/.gitattributes", "/w/.github/workflows/x.yml", "/w/git/config", "/w/crush.json.md",
        "/w/docs/crush/x", "/w/skills/x", "/w/.claude/x", "/w/owner", "/w/.env", "/w/profile", "/w/a.git/x",
    ],
)  # fmt: skip
def test_other_files_are_not(path: str) -> None:
    assert not is_protected(path, workspace="/w", more=["/w/own", "/"])


def test_folders_above_the_workspace_do_not_count_apart_from_git() -> None:
    assert not is_protected("/home/u/.crush/trees/w/a.py", workspace="/home/u/.crush/trees/w")
    assert not is_protected("/u/.ssh/w/a.py", workspace="/u/.ssh/w")
    assert is_protected("/u/.ssh/config", workspace="/u/.ssh/w")
    assert is_protected("/u/.crush/x", workspace="/u/.crush")
    assert is_protected("/u/.claude/skills/x/SKILL.md", workspace="/u/.claude/skills")
    assert not is_protected("/.claude/skills/w/a.py", workspace="/.claude/skills/w")
    assert is_protected("/u/.crush/x", workspace="/")
    assert is_protected("/.crush", workspace="/")
    assert not is_protected("/", workspace="/")
    assert is_protected("/u/.config/git/config", workspace="/w/deep/down")
    assert is_protected("/w/.git/modules/x/hooks/y", workspace="/w/.git/modules/x")


def test_only_the_last_name_of_a_path_is_a_files() -> None:
    assert not is_protected("/w/mise.toml/x", workspace="/w")
    assert not is_protected("/w/.bashrc/a/b", workspace="/w")


def test_more_protected_folders_are_named_from_the_root() -> None:
    assert is_protected("/own/x", workspace="/w", more=["/own"])
    assert is_protected("/own", workspace="/w", more=["/other", "/own"])
    assert not is_protected("/w/own/x", workspace="/w", more=["/own"])
    assert not is_protected("/own", workspace="/w", more=["/own/x"])


def test_a_folder_covers_what_lies_in_it() -> None:
    assert covers_folder("/w", "/w/a/b")
    assert not covers_folder("/w", "/w")
    assert not covers_folder("/w", "/wa")
    assert covers_folder("/", "/w")
