"""What files say of tools' surroundings, as the values that the rest of the program takes."""

import json

import pytest

from agents.config.edits.choices import StoredScope, set_value
from agents.config.settings import Attribution

SECRET = "zQ9-secret-of-a-server"


def test_everything_comes_from_the_merged_files(place):
    place.write(
        place.users_own,
        {
            "hooks": {"PreToolUse": [{"command": "guard"}]},
            "options": {"disabled_skills": ["a"], "skills_paths": ["~/skills"]},
            "mcp": {"github": {"command": "gh", "env": {"TOKEN": "$TOKEN"}}},
        },
    )
    place.write(
        place.project,
        {
            "hooks": {"pre_tool_use": [{"command": "second", "matcher": "bash"}]},
            "options": {"disabled_skills": ["b"], "skills_paths": ["here"], "auto_lsp": False},
            "mcp": {"github": {"timeout": 60}, "other": {"url": "http://h/mcp"}},
            "lsp": {"gopls": {"command": "gopls"}},
            "tools": {"web": {"allowed_private_hosts": [" LocalHost:8080", "10.0.0.0/8", ""]}},
        },
    )
    loaded = place.load({"TOKEN": SECRET})
    settings = loaded.settings
    assert loaded.problems == ()
    assert [hook.command for hook in settings.pre_tool_hooks] == ["guard", "second"]
    assert settings.disabled_skills == {"a", "b"}
    assert f"{place.home}/skills" in settings.skills_paths
    assert f"{place.workspace}/here" in settings.skills_paths
    assert f"{place.home}/.config/crush/skills" in settings.skills_paths
    assert f"{place.workspace}/.claude/skills" in settings.skills_paths
    assert not settings.auto_lsp
    assert settings.mcp["github"].env == {"TOKEN": SECRET}
    assert settings.mcp["github"].timeout_seconds == 60
    assert set(settings.mcp) == {"github", "other"}
    assert settings.lsp["gopls"].command == "gopls"
    assert settings.web_allowed_hosts == ("localhost:8080", "10.0.0.0/8")
    assert SECRET not in json.dumps(loaded.public) + repr(loaded)
    assert loaded.public["mcp"]["github"]["env"] == {"TOKEN": "$TOKEN"}


def test_without_any_file_nothing_is_started_and_known_language_servers_may_be(place):
    settings = place.load().settings
    assert (settings.mcp, settings.lsp, settings.pre_tool_hooks) == ({}, {}, ())
    assert settings.auto_lsp
    assert settings.attribution == Attribution()
    assert settings.web_allowed_hosts == ()


@pytest.mark.parametrize(
    ("written", "style", "generated"),
    [
        ({}, "assisted-by", True),
        ({"trailer_style": "none"}, "none", True),
        ({"trailer_style": "co-authored-by", "generated_with": False}, "co-authored-by", False),
        ({"co_authored_by": True}, "co-authored-by", True),
        ({"co_authored_by": False}, "none", True),
        ({"co_authored_by": False, "trailer_style": "assisted-by"}, "assisted-by", True),
        ({"trailer_style": ""}, "assisted-by", True),
    ],
)
def test_attribution_is_what_clients_are_shown(place, written: dict, style: str, generated: bool):
    place.write(place.project, {"options": {"attribution": written}})
    loaded = place.load()
    assert loaded.settings.attribution == Attribution(style, generated)
    shown = loaded.public["options"]["attribution"]
    assert (shown["trailer_style"], shown["generated_with"]) == (style, generated)


def test_values_of_the_wrong_type_are_told_and_nothing_else_is_lost(place):
    place.write(
        place.project,
        {
            "options": {"attribution": {"trailer_style": "loud"}, "auto_lsp": "yes"},
            "tools": {"web": {"allowed_private_hosts": "all"}, "ls": 3, "grep": {"a": 1}},
            "mcp": {"s": {"command": ["x"], "args": "y", "env": {"A": 1}}},
        },
    )
    loaded = place.load()
    keys = {problem.key for problem in loaded.problems}
    assert keys >= {
        "options.attribution.trailer_style",
        "options.auto_lsp",
        "tools.web.allowed_private_hosts",
        "tools.ls",
        "mcp.s.command",
        "mcp.s.args",
        "mcp.s.env.A",
    }
    assert loaded.settings.mcp["s"].is_disabled
    assert loaded.settings.attribution.trailer_style == "assisted-by"
    assert loaded.public["tools"]["grep"] == {"a": 1}
    assert loaded.public["tools"]["ls"] == {"max_depth": 2, "max_items": 100}


@pytest.mark.parametrize(
    "key",
    [
        "models.large.api_key",
        "models.large.provider_options.token",
        "permissions.api_key",
        "options.api_key",
        "options.tui.access_token",
        "options.attribution.secret",
        "tools.web.api_key",
        "tools.other.deep.password",
        "lsp.a.api_key",
        "lsp.a.init_options.token",
        "lsp.a.env.ANYTHING",
        "mcp.a.headers.X",
        "mcp.a.env.ANYTHING",
        "mcp.a.channel_reply.secret",
        "mcp.a.oauth_client_secret",
        "providers.a.api_key",
        "providers.a.client_secret",
        "providers.a.extra_headers.X",
        "providers.a.extra_body.token",
        "providers.a.provider_options.api_key",
    ],
)
def test_a_secret_is_masked_wherever_a_client_sets_it(place, key: str):
    place.write(
        place.project,
        {
            "models": {"large": {"provider": "a", "model": "token-model:8b"}},
            "permissions": {"allowed_tools": ["mcp_get_token:execute"]},
            "providers": {"a": {"base_url": "http://h", "models": [{"id": "token-model:8b"}]}},
            "mcp": {"a": {"command": "x"}},
            "lsp": {"a": {"command": "x"}},
        },
    )
    set_value(
        StoredScope.WORKSPACE,
        key,
        SECRET,
        data_dir=str(place.data_dir),
        server_env=place.server_env,
    )
    loaded = place.load()
    assert SECRET not in json.dumps(loaded.public) + repr(loaded) + str(loaded.problems)
    # What only looks like a secret is not touched.
    assert loaded.public["models"]["large"]["model"] == "token-model:8b"
    assert loaded.public["permissions"]["allowed_tools"] == ["mcp_get_token:execute"]
