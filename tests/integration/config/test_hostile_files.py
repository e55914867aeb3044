"""Configuration files that are built to break the server, to slow it down, or to reveal a key."""

import json
import time

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=6), below, max_size=3)
    ),
    max_leaves=8,
)
SECTION = st.sampled_from(
    [
        "models",
        "providers",
        "options",
        "mcp",
        "lsp",
        "hooks",
        "tools",
        "permissions",
        "$schema",
        "recent_models",
    ]
)
INNER = st.sampled_from(
    ["large", "small", "openai", "a", "tui", "attribution", "context_paths", "data_directory",
     "allowed_tools", "disable_default_providers", "PreToolUse", "ls", "skills_paths", "global_context_paths"]
)  # fmt: skip
LEAF = st.sampled_from(
    ["model", "provider", "base_url", "api_key", "models", "extra_headers", "extra_body", "oauth",
     "type", "env", "headers", "args", "completions", "disable", "provider_options"]
)  # fmt: skip
HOSTILE = st.dictionaries(
    SECTION,
    JSON | st.dictionaries(INNER, JSON | st.dictionaries(LEAF, JSON, max_size=4), max_size=3),
)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(project=HOSTILE, own=HOSTILE, stored=HOSTILE)
def test_no_json_makes_it_raise_and_every_answer_can_be_sent(place, project, own, stored):
    place.write(place.project, json.dumps(project))
    place.write(place.users_own, json.dumps(own))
    place.write(place.stored_for_workspace, json.dumps(stored))
    loaded = place.load({"A": "1"})
    orjson.dumps(loaded.public)
    public = loaded.public
    assert isinstance(public["options"]["tui"], dict)
    for kind in ("large", "small"):
        choice = public["models"][kind]
        listed = public["providers"][choice["provider"]]["models"]
        assert choice["model"] in [model["id"] for model in listed]


SECRETS = st.text(
    alphabet="abcdefghijklmnopqrstuvwxyzABCDEF0123456789-_./+=", min_size=10, max_size=30
).map(lambda text: f"zQ9{text}")


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(secrets=st.lists(SECRETS, min_size=10, max_size=10, unique=True), expanded=st.booleans())
def test_no_secret_is_in_what_clients_see(place, secrets, expanded):
    env = {f"V{index}": secret for index, secret in enumerate(secrets)} if expanded else {}
    s = [f"${name}" for name in env] if expanded else secrets
    place.write(place.stored_for_user, {"providers": {"anthropic": {"api_key": s[0]}}})
    place.write(
        place.project,
        {
            "providers": {
                "a": {
                    "base_url": f"https://user:{secrets[9]}@host/v1",
                    "name": f"My {secrets[1]}",
                    "api_key": s[1],
                    "extra_headers": {"X-Any": s[2], "Authorization": f"Bearer {s[3]}"},
                    "extra_body": {"safety_key": s[4], "deep": [{"access_token": secrets[4]}]},
                    "oauth": {"access_token": s[5], "refresh_token": secrets[5], "expires_in": 5},
                    "models": [{"id": "m"}],
                    "system_prompt_prefix": f"prefix {secrets[2]}",
                },
                "off": {"disable": True, "api_key": secrets[6]},
            },
            "mcp": {
                "m": {
                    "type": "stdio",
                    "command": f"run {secrets[7]}",
                    "args": ["--token", secrets[9], f"--api-key={secrets[8]}", secrets[7]],
                    "env": {"ANY": s[7], "LITERAL": secrets[7]},
                    "headers": {"H": s[8], "L": secrets[8]},
                    "oauth_client_secret": secrets[6],
                }
            },
            "lsp": {"l": {"command": "x", "env": {"E": s[6], "L": secrets[6]}}},
            "hooks": {"PreToolUse": [{"command": f"X_TOKEN={secrets[9]} check {secrets[8]}"}]},
        },
    )
    loaded = place.load(env)
    shown = json.dumps(loaded.public)
    told = " ".join(map(str, loaded.problems)) + repr(loaded.settings) + repr(loaded.problems)
    for secret in secrets:
        assert secret not in shown
        assert secret not in told or secret == secrets[1]  # a name is printed


def test_a_key_that_equals_a_common_word_breaks_nothing(place):
    words = ["ollama", "providers", "options", "models", str(place.workspace), "openai-compat"]
    place.write(
        place.project,
        {
            "providers": {
                "ollama": {"api_key": "ollama", "base_url": "http://h/v1", "models": [{"id": "m"}]},
                "x": {
                    "base_url": "http://h/v1",
                    "api_key": "none",
                    "models": [{"id": "m"}],
                    "extra_headers": {f"X-{index}": word for index, word in enumerate(words)},
                },
            },
            "mcp": {"s": {"env": {"HOME": str(place.home), "DIR": str(place.workspace)}}},
            "models": {"large": {"provider": "ollama", "model": "m"}},
        },
    )
    public = place.load().public
    assert public["models"]["large"] == {"provider": "ollama", "model": "m", "max_tokens": 8192}
    assert public["providers"]["x"]["type"] == "openai-compat"
    assert public["options"]["data_directory"] == f"{place.workspace}/.crush"
    assert public["options"]["skills_paths"][0].startswith(str(place.home))


def hostile_files() -> dict[str, dict]:
    many = 20_000
    headers = {f"H{index}": f"secret-{index:08}" for index in range(many)}
    model = {"base_url": "http://h/v1"}
    return {
        "headers": {"providers": {"a": model | {"extra_headers": headers}}},
        "variables": {
            "providers": {"a": model | {"extra_headers": dict.fromkeys(headers, "$BIG" * 5)}}
        },
        "body": {"providers": {"a": model | {"extra_body": dict.fromkeys(headers, "$BIG" * 5)}}},
        "env": {"mcp": {"a": {"env": headers, "args": list(headers.values())}}},
        "models": {"providers": {"a": model | {"models": [{"id": f"m{i}"} for i in range(many)]}}},
        "providers": {"providers": {f"p{index}": model for index in range(many)}},
        "paths": {"options": {"context_paths": [f"p{index}" for index in range(many)]}},
        "command": {"hooks": {"PreToolUse": [{"command": "a_key" * 150_000}]}},
        "addresses": {"hooks": {"PreToolUse": [{"command": "a://b@" * 150_000}]}},
        "dashes": {"mcp": {"a": {"args": ["-key" * 200_000, "-" * 200_000]}}},
        "misfits": {"options": {"context_paths": [1] * many}},
    }


@pytest.mark.parametrize("name", hostile_files())
def test_a_file_built_to_be_slow_is_loaded_in_good_time(place, name: str):
    place.write(place.project, hostile_files()[name])
    started = time.process_time()
    loaded = place.load({"BIG": "x" * 100_000})
    assert time.process_time() - started < 5
    assert len(loaded.problems) <= 100
    assert len(orjson.dumps(loaded.public)) < 4 << 20
