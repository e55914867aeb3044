"""What calls of a crushrc's builtins configure."""

import shlex
from typing import Any

import pytest

from agents.config.crushrc.language import BuiltinCall, trees_of
from agents.config.merge import merge


def configured(*lines: str, below: dict[str, Any] | None = None) -> dict[str, Any]:
    """The lines laid over a lower file; none of them may be wrong."""
    trees, problems = trees_of(calls(*lines))
    assert problems == []
    tree = below or {}
    for each in trees:
        tree = merge(tree, each)
    return tree


def calls(*lines: str) -> list[BuiltinCall]:
    return [
        BuiltinCall(tuple(shlex.split(line)), "/p/crushrc", n) for n, line in enumerate(lines, 1)
    ]


def mistake(line: str) -> str:
    trees, problems = trees_of(calls("option debug", line))
    assert trees == [{"options": {"debug": True}}]
    (problem,) = problems
    assert (problem.file, problem.line) == ("/p/crushrc", 2)
    return problem.message


def test_a_provider_with_everything() -> None:
    line = (
        "provider add mine --name Mine --type openai-compat --api-key '$KEY' --base-url http://h/v1"
        " --disable no --flat-rate --discover-models yes --system-prompt-prefix Hi"
        " --extra-header X-A 1 --extra-header X-B '' --extra-body '{\"a\": 1}'"
        " --provider-options '{\"b\": {}}'"
    )
    assert configured(line)["providers"]["mine"] == {
        "name": "Mine",
        "type": "openai-compat",
        "api_key": "$KEY",
        "base_url": "http://h/v1",
        "disable": False,
        "flat_rate": True,
        "discover_models": True,
        "system_prompt_prefix": "Hi",
        "extra_headers": {"X-A": "1", "X-B": ""},
        "extra_body": {"a": 1},
        "provider_options": {"b": {}},
    }


def test_later_lines_change_what_earlier_ones_added() -> None:
    tree = configured(
        "provider add mine --name A --api-key k",
        "provider add mine --name B",
        "model add mine/m --context-window 1000",
        "model add mine/m --can-reason",
        "model add mine/n/with/slashes",
    )
    assert tree["providers"]["mine"] == {
        "name": "B",
        "api_key": "k",
        "models": [
            {"id": "m", "context_window": 1000, "can_reason": True},
            {"id": "n/with/slashes"},
        ],
    }


def test_a_model_with_prices() -> None:
    tree = configured(
        "model add p/m --name M --default-max-tokens 5 --supports-images true --price-input 1.5"
        " --price-output 2 --price-cache-create 3 --price-cache-hit .25 --reasoning-effort low"
    )
    assert tree["providers"]["p"]["models"] == [
        {
            "id": "m",
            "name": "M",
            "default_max_tokens": 5,
            "supports_attachments": True,
            "cost_per_1m_in": 1.5,
            "cost_per_1m_out": 2.0,
            "cost_per_1m_in_cached": 3.0,
            "cost_per_1m_out_cached": 0.25,
            "default_reasoning_effort": "low",
        }
    ]


def test_removing_takes_away_what_lower_files_say_too() -> None:
    below = {"providers": {"a": {"name": "A"}, "b": {"name": "B"}}, "mcp": {"x": {"command": "c"}}}
    tree = configured(
        "provider remove a",
        "provider add c --name C",
        "provider rm c",
        "mcp rm x",
        "provider add a --type openai",
        below=below,
    )
    assert tree["providers"] == {"b": {"name": "B"}, "a": {"type": "openai"}}
    assert tree["mcp"] == {}


def test_choosing_models() -> None:
    tree = configured(
        "model large p/big --think --reasoning-effort high --max-tokens 9 --temperature 0.5"
        " --top-p 1 --top-k 3 --frequency-penalty -1 --presence-penalty 0.5",
        "model small p/little",
        "model large --think=false",
    )
    assert tree["models"] == {
        "large": {
            "provider": "p",
            "model": "big",
            "think": False,
            "reasoning_effort": "high",
            "max_tokens": 9,
            "temperature": 0.5,
            "top_p": 1.0,
            "top_k": 3,
            "frequency_penalty": -1.0,
            "presence_penalty": 0.5,
        },
        "small": {"provider": "p", "model": "little"},
    }


def test_servers() -> None:
    tree = configured(
        "mcp add files --command npx --args -y --args '--deep' --env A 1 --env B 2 --timeout 5"
        " --disabled-tools rm --enabled-tools ls --enabled-tools cat",
        "mcp add web --type http --url https://h/mcp --header Authorization 'Bearer $T' --disabled"
        " --oauth no --oauth-client-id i --oauth-client-secret s --oauth-callback-port 99",
        "lsp add go --command gopls --args serve --filetypes go --root-markers go.mod --timeout 3"
        " --init-options '{\"x\": 1}' --options '{\"y\": 2}' --env A b --disabled false",
    )
    assert tree["mcp"]["files"] == {
        "command": "npx",
        "args": ["-y", "--deep"],
        "env": {"A": "1", "B": "2"},
        "timeout": 5,
        "disabled_tools": ["rm"],
        "enabled_tools": ["ls", "cat"],
    }
    assert tree["mcp"]["web"] == {
        "type": "http",
        "url": "https://h/mcp",
        "headers": {"Authorization": "Bearer $T"},
        "disabled": True,
        "oauth": False,
        "oauth_client_id": "i",
        "oauth_client_secret": "s",
        "oauth_callback_port": 99,
    }
    assert tree["lsp"]["go"] == {
        "command": "gopls",
        "args": ["serve"],
        "filetypes": ["go"],
        "root_markers": ["go.mod"],
        "timeout": 3,
        "init_options": {"x": 1},
        "options": {"y": 2},
        "env": {"A": "b"},
        "disabled": False,
    }


def test_hooks_are_removed_by_name_from_this_file_alone() -> None:
    below = {"hooks": {"PreToolUse": [{"command": "guard", "name": "a"}]}}
    tree = configured(
        "hook add PreToolUse --command one --name a --matcher '^bash$' --timeout 5",
        "hook add PreToolUse --command two",
        "hook remove PreToolUse --name a",
        below=below,
    )
    assert tree["hooks"]["PreToolUse"] == [{"command": "guard", "name": "a"}, {"command": "two"}]
    assert configured("hook add E --command x", "hook rm E")["hooks"] == {"E": []}


def test_permissions() -> None:
    tree = configured("permissions allow view ls", "permissions deny bash")
    assert tree["permissions"] == {"allowed_tools": ["view", "ls"]}
    assert tree["options"] == {"disabled_tools": ["bash"]}


def test_options() -> None:
    tree = configured(
        "option debug",
        "option auto-lsp 0",
        "option metrics no",
        "option auto-summarize YES",
        "option default-providers false",
        "option attribution-generated-with true",
        "option attribution-trailer-style none",
        "option data-directory .x",
        "option context-path A.md",
        "option context-path B.md",
        "option skill-path s",
        "option disable-skill t",
        "option ui compact true",
        "option ui diff split",
        "option ui completions-max-depth 4",
    )
    assert tree["options"] == {
        "debug": True,
        "auto_lsp": False,
        "disable_metrics": True,
        "disable_auto_summarize": False,
        "disable_default_providers": True,
        "attribution": {"generated_with": True, "trailer_style": "none"},
        "data_directory": ".x",
        "context_paths": ["A.md", "B.md"],
        "skills_paths": ["s"],
        "disabled_skills": ["t"],
        "tui": {"compact_mode": True, "diff_mode": "split", "completions": {"max_depth": 4}},
    }


def test_a_list_is_reset_for_lower_files_too_and_keeps_what_comes_after() -> None:
    tree = configured(
        "option context-path A.md",
        "option reset context-path",
        "option context-path B.md",
        below={"options": {"context_paths": ["LOW.md"], "debug": True}},
    )
    assert tree["options"] == {"debug": True, "context_paths": ["B.md"]}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("provider", "needs add or remove"),
        ("provider add", "needs a name"),
        ("provider create x", "'create' is not add or remove"),
        ("provider add x --nmae y", "did you mean --name?"),
        ("provider add x --name", "--name needs a value"),
        ("provider add x --extra-header A", "needs a name and a value"),
        ("provider add x --extra-body 1", "must be a JSON object"),
        ("provider add x --extra-body {", "not JSON"),
        ("provider remove x y", "unexpected word 'y'"),
        ("model add big", "not of the form PROVIDER/ID"),
        ("model large big", "not of the form PROVIDER/ID"),
        ("model add p/m --context-window many", "not a whole number"),
        ("model add p/m --price-input free", "not a number"),
        ("model add p/m --can-reason=perhaps", "not true or false"),
        ("mcp add x --oauth maybe", "'maybe' is not a known flag"),
        ("hook add PreToolUse", "--command is missing"),
        ("hook remove PreToolUse --matcher x", "only --name"),
        ("permissions allow", "needs a tool"),
        ("permissions grant x", "not allow or deny"),
        ("option debgg", "did you mean debug?"),
        ("option reset debug", "not an option that holds a list"),
        ("option ui diffs x", "did you mean diff?"),
        ("option initialize-as", "needs a value"),
    ],
)
def test_a_mistake_has_its_line_and_changes_nothing(line: str, words: str) -> None:
    assert words in mistake(line)
