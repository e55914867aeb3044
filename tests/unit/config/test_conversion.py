"""A configuration in the other of its two formats."""

import json
import shlex
from typing import Any

from agents.config.crushrc.conversion import as_crushrc, as_json
from agents.config.crushrc.language import BuiltinCall, trees_of

TREE: dict[str, Any] = {
    "$schema": "https://example.org/schema",
    "providers": {
        "mine": {
            "type": "openai-compat",
            "base_url": "http://h/v1",
            "api_key": "$KEY",
            "disable": False,
            "extra_headers": {"X-A": "it's one", "X-B": ""},
            "extra_body": {"a": [1, {"b": None}]},
            "models": [{"id": "m/x", "context_window": 5, "cost_per_1m_in": 0.5}],
        },
    },
    "models": {"large": {"provider": "mine", "model": "m/x", "think": True, "top_k": 4}},
    "mcp": {"s": {"command": "c", "args": ["-y", "--x=1"], "env": {"A": "$B"}, "disabled": True}},
    "lsp": {"go": {"command": "gopls", "filetypes": ["go", "mod"]}},
    "hooks": {"PreToolUse": [{"command": "a b", "matcher": "^bash$"}, {"command": "c"}]},
    "permissions": {"allowed_tools": ["view", "bash:execute"]},
    "options": {
        "debug": True,
        "disable_metrics": True,
        "disable_auto_summarize": False,
        "context_paths": ["A.md", "b c.md"],
        "disabled_tools": ["bash"],
        "attribution": {"trailer_style": "none", "generated_with": False},
        "tui": {"compact_mode": True, "completions": {"max_depth": 3}},
    },
}


def evaluated(text: str) -> list[dict[str, Any]]:
    """As bash would split it: nothing in it is expanded."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    calls = [BuiltinCall(tuple(shlex.split(line)), "f", n) for n, line in enumerate(lines)]
    trees, problems = trees_of(calls)
    assert problems == []
    return trees


def test_a_configuration_survives_the_way_there_and_back() -> None:
    text, left_out = as_crushrc(TREE)
    assert left_out == []
    back = json.loads(as_json(evaluated(text)))
    assert back == {key: value for key, value in TREE.items() if key != "$schema"}


def test_what_is_taken_away_stays_taken_away() -> None:
    tree = {"mcp": {"x": None}, "providers": {"p": None}, "options": {"context_paths": None}}
    text, left_out = as_crushrc(tree)
    assert left_out == []
    assert "mcp remove x" in text
    assert {"mcp": {"x": None}} in evaluated(text)
    assert {"options": {"context_paths": None}} in evaluated(text)


def test_what_cannot_be_expressed_is_named() -> None:
    tree = {
        "fleet": {"r": {}},
        "tools": {"ls": {"max_depth": 1}},
        "recent_models": {},
        "providers": {"p": {"oauth": {"access_token": "t"}}},
        "options": {"request_timeout": 5, "debug": True},
        "mcp": {"m": {"command": "c", "sessionless": True}},
    }
    text, left_out = as_crushrc(tree)
    assert left_out == [
        "fleet",
        "tools",
        "recent_models",
        "providers.p.oauth",
        "options.request_timeout",
        "mcp.m.sessionless",
    ]
    assert all(f"# Not expressible here, keep it in crush.json: {key}" in text for key in left_out)
    assert evaluated(text) == [
        {"providers": {"p": {}}, "options": {"debug": True}, "mcp": {"m": {"command": "c"}}}
    ]


def test_removals_count_when_several_trees_become_one_file() -> None:
    trees = [{"options": {"context_paths": ["a"]}}, {"options": {"context_paths": None}}]
    assert json.loads(as_json(trees)) == {"options": {}}
