import pytest

from agents.config.schema import CONFIG
from agents.config.validation import KEYS_LIMIT, unknown_keys


def told(tree: dict) -> list[str]:
    return [f"{misfit.key}: {misfit.message}" for misfit in unknown_keys(tree, CONFIG)]


@pytest.mark.parametrize(
    ("tree", "key", "meant"),
    [
        ({"provider": {}}, "provider", "providers"),
        ({"model": "x"}, "model", "models"),
        ({"permission": {}}, "permission", "permissions"),
        ({"mcpServers": {}}, "mcpServers", "mcp"),
        ({"providers": {"a": {"apiKey": "k"}}}, "providers.a.apiKey", "api_key"),
        ({"providers": {"a": {"baseURL": "k"}}}, "providers.a.baseURL", "base_url"),
        ({"providers": {"a": {"models": [{"ID": "m"}]}}}, "providers.a.models[0].ID", "id"),
        ({"mcp": {"a": {"commandd": "k"}}}, "mcp.a.commandd", "command"),
        ({"permissions": {"allow": ["x"]}}, "permissions.allow", "allowed_tools"),
        ({"hooks": {"PreToolUse": [{"match": "x"}]}}, "hooks.PreToolUse[0].match", "matcher"),
        ({"options": {"tui": {"compactMode": 1}}}, "options.tui.compactMode", "compact_mode"),
    ],
)
def test_a_misspelled_key_is_named_with_the_one_that_was_meant(tree: dict, key: str, meant: str):
    assert told(tree) == [f"{key}: is not known and has no effect; did you mean {meant}?"]


def test_a_key_like_no_other_is_only_named():
    assert told({"keybinds": {}}) == ["keybinds: is not known and has no effect"]


@pytest.mark.parametrize(
    "tree",
    [
        {"$schema": "x", "_note": "x", "//": "x", "comment": "x"},
        {"providers": {"any name": {"extra_body": {"any": {"key": 1}}}}},
        {"models": {"large": {"provider": "a", "model": "m", "provider_options": {"x": 1}}}},
        {"tools": {"ls": {"max_depth": 1}, "other": {"x": 1}}},
        {"mcp": {"a": None}, "lsp": None, "providers": []},
    ],
)
def test_what_is_known_free_or_a_note_is_not_named(tree: dict):
    assert told(tree) == []


def test_a_name_that_no_line_could_show_is_not_repeated():
    assert told({"a\nb": 1, "x" * 100: 2}) == ["…: is not known and has no effect"] * 2


def test_many_are_not_all_named():
    assert len(told({f"unknown{index}": 1 for index in range(1_000)})) == KEYS_LIMIT
