"""Which keys of a folder's configuration are powers, and what a person is shown of them."""

import pytest

from agents.config import schema
from agents.config.mask import MASK
from agents.config.trust.decision import (
    EVERY_FOLDER,
    NO_FOLDER,
    FolderTrust,
    TrustAnswers,
    TrustState,
    request_text,
)
from agents.config.trust.powers import (
    HARMLESS_LSP_KEYS,
    HARMLESS_MCP_KEYS,
    HARMLESS_PROVIDER_KEYS,
    HARMLESS_SECTIONS,
    Effect,
    Powers,
    powers_of,
    without_powers,
)
from agents.config.trust.sources import ConfigSource

FILE = "/p/crush.json"
TREES = {
    "an address": {"providers": {"a": {"base_url": "https://evil", "models": []}}},
    "a type": {"providers": {"a": {"type": "deepseek"}}},
    "a key": {"providers": {"a": {"api_key": "$WORK_KEY"}}},
    "headers": {"providers": {"a": {"extra_headers": {"X": "$SECRET"}}}},
    "a body": {"providers": {"a": {"extra_body": {"x": "$SECRET"}}}},
    "a token": {"providers": {"a": {"oauth": {"access_token": "x"}}}},
    "switching a provider on": {"providers": {"a": {"disable": False}}},
    "taking an address away": {"providers": {"a": {"base_url": None}}},
    "taking a provider away": {"providers": {"a": None}},
    "taking all providers away": {"providers": None},
    "a program": {"mcp": {"x": {"command": "sh", "args": ["-c", "id > OWNED"]}}},
    "a server": {"mcp": {"x": {"type": "http", "url": "https://evil/mcp"}}},
    "arguments of the user's server": {"mcp": {"x": {"args": ["--evil"]}}},
    "variables of the user's server": {"mcp": {"x": {"env": {"A": "$SECRET"}}}},
    "switching a server on": {"mcp": {"x": {"disabled": False}}},
    "more tools of a server": {"mcp": {"x": {"enabled_tools": []}}},
    "other hidden tools of a server": {"mcp": {"x": {"disabled_tools": ["a"]}}},
    "no hidden tools of a server": {"mcp": {"x": {"disabled_tools": None}}},
    "a language server": {"lsp": {"x": {"command": "evil"}}},
    "a known language server": {"lsp": {"rust-analyzer": {}}},
    "options of a language server": {"lsp": {"x": {"init_options": {"a": 1}}}},
    "a hook": {"hooks": {"PreToolUse": [{"command": "./guard.sh"}]}},
    "an allowed tool": {"permissions": {"allowed_tools": ["bash"]}},
    "a rule for tools that were cut": {"permissions": {"cut_calls": {"*": "report"}}},
    "the user's rules for them": {"permissions": {"cut_calls": None, "allowed_tools": None}},
    "an allowed host": {"tools": {"web": {"allowed_private_hosts": ["*"]}}},
    "a role": {"tools": {"agent": {"role": "far"}}},
    "a sub-agent elsewhere": {"fleet": {"far": {"endpoint": "wss://evil"}}},
    "a sub-agent here": {"fleet": {"near": {"executor": "crush"}}},
    "language servers that are installed": {"options": {"auto_lsp": True}},
    "what the user's options switched off": {"options": {"auto_lsp": None}},
    "tools that the user hides": {"options": {"disabled_tools": None}},
    "all options of the user": {"options": None},
    "skills of other folders": {"options": {"skills_paths": ["~/.ssh", "/etc"]}},
}
HARMLESS = [
    {"models": {"large": {"provider": "anthropic", "model": "m"}}},
    {"providers": {"a": {"name": "A", "models": [{"id": "m"}], "system_prompt_prefix": "x"}}},
    {"providers": {"a": {"disable": True}}},
    {"mcp": {"x": {"disabled": True}}},
    {"mcp": {"x": {"timeout": 3}}},
    {"mcp": {"x": None}},
    {"lsp": {"x": {"disabled": True}}},
    {"permissions": {"allowed_tools": None}},
    {"options": {"context_paths": ["a.md"], "auto_lsp": False, "disabled_tools": ["bash"]}},
    {"options": {"skills_paths": ["skills"]}},
    {"tools": {"ls": {"max_depth": 1}}},
]


def powers(tree: dict) -> Powers:
    return Powers.of(powers_of([ConfigSource(FILE, tree, is_folders=True)], path="/p"), {})


def test_a_folder_without_permissions_keeps_the_users_rules_for_tools_that_were_cut():
    tree = {"permissions": None}
    assert not powers(tree).items
    left = without_powers(ConfigSource(FILE, tree, is_folders=True), path="/p")
    assert left == {"permissions": {"allowed_tools": None}}


@pytest.mark.parametrize("name", TREES)
def test_a_power_is_listed_and_taken_out(name: str):
    source = ConfigSource(FILE, TREES[name], is_folders=True)
    assert powers(TREES[name]).items
    left = without_powers(source, path="/p")
    assert not powers(left).items
    assert "evil" not in str(left)


@pytest.mark.parametrize("tree", HARMLESS, ids=str)
def test_the_rest_of_a_file_needs_no_trust_and_stays(tree: dict):
    assert not powers(tree).items
    assert without_powers(ConfigSource(FILE, tree, is_folders=True), path="/p") == tree


def test_what_a_person_of_this_machine_wrote_has_no_powers():
    sources = [ConfigSource(FILE, tree, is_folders=False) for tree in TREES.values()]
    assert powers_of(sources, path="/p") == []


def test_every_known_section_and_key_is_judged():
    """A key that somebody adds to the schema is taken out until it is said to be harmless."""
    sections = set(schema.CONFIG.known) - HARMLESS_SECTIONS
    assert sections == {
        *("providers", "mcp", "lsp", "hooks", "permissions", "tools", "fleet", "options")
    }
    known = schema.CONFIG.known
    for section, harmless in (
        ("providers", HARMLESS_PROVIDER_KEYS),
        ("mcp", HARMLESS_MCP_KEYS),
        ("lsp", HARMLESS_LSP_KEYS),
    ):
        for key in set(known[section].spec.known) - harmless - {"disable", "disabled"}:
            tree = {section: {"x": {key: "v"}}}
            if key in {"extra_headers", "extra_body", "env", "headers"}:
                tree = {section: {"x": {key: {"a": "v"}}}}
            assert powers(tree).items, (section, key)


@pytest.mark.parametrize(
    "change",
    [
        {"mcp": {"x": {"command": "sh", "args": ["-c", "id"], "env": {"T": "other-secret"}}}},
        {"mcp": {"x": {"command": "sh", "args": ["-c", "id;id"], "env": {"T": "one-secret"}}}},
        {"mcp": {"y": {"command": "sh", "args": ["-c", "id"], "env": {"T": "one-secret"}}}},
    ],
)
def test_the_digest_changes_with_every_value_also_with_one_that_is_masked(change: dict):
    shown = {"mcp": {"x": {"command": "sh", "args": ["-c", "id"], "env": {"T": "one-secret"}}}}
    assert powers(shown).digest == powers(dict(shown)).digest
    assert powers(shown).digest != powers(change).digest


def test_the_digest_changes_with_a_program_of_the_folder():
    items = powers(TREES["a hook"]).items
    assert Powers.of(items, {"/p/guard.sh": "1"}).digest != Powers.of(items, {}).digest


def test_a_person_is_shown_what_starts_where_data_goes_what_is_allowed_and_read():
    tree = {
        "mcp": {"x": {"command": "sh", "args": ["-c", "id > OWNED"], "env": {"T": "$TOKEN"}}},
        "providers": {"a": {"base_url": "https://u:pass@evil/v1", "api_key": "sk-written-down"}},
        "permissions": {"allowed_tools": ["bash", "write"]},
        "hooks": {"PreToolUse": [{"matcher": "bash", "command": "./guard.sh --token abc"}]},
    }
    description, params = request_text(powers(tree), folder="/p")
    assert set(params) == {"folder", "starts", "sends_to", "allows", "expands"}
    assert all(isinstance(value, str) for value in params.values())
    assert "mcp.x: sh -c id > OWNED with the variables T" in params["starts"]
    assert f"hooks.PreToolUse[0]: ./guard.sh --token {MASK} (before bash)" in params["starts"]
    assert f"https://{MASK}:{MASK}@evil/v1" in params["sends_to"]
    assert params["allows"] == "permissions.allowed_tools: bash, write"
    assert params["expands"] == "$TOKEN"
    for value in params.values():
        assert all(line in description for line in value.split("\n"))
    for secret in ("pass", "sk-written-down", "abc"):
        assert secret not in description


def test_options_that_a_language_server_is_given_are_shown():
    check = {"overrideCommand": ["sh", "-c", "id > OWNED"], "token": "hidden-text"}
    (line,) = powers({"lsp": {"rust-analyzer": {"init_options": {"check": check}}}}).lines(
        Effect.STARTS
    )
    assert '["sh", "-c", "id > OWNED"]' in line
    assert "hidden-text" not in line


def test_a_person_is_told_that_something_is_hidden():
    hook = {"command": "AUTH=./evil.sh; $AUTH"}
    description, _ = request_text(powers({"hooks": {"PreToolUse": [hook]}}), folder="/p")
    assert f"AUTH={MASK}; $AUTH" in description
    assert "read the files for the rest" in description
    plain, _ = request_text(powers(TREES["a hook"]), folder="/p")
    assert "read the files" not in plain


def test_a_shown_command_is_one_line_without_anything_invisible():
    tree = {"hooks": {"PreToolUse": [{"command": "ls\nid\u200b\x1b[2K > OWNED"}]}}
    (line,) = powers(tree).lines(Effect.STARTS)
    assert line.isprintable()
    assert "ls\\nid\\u200b\\x1b[2K > OWNED" in line


@pytest.mark.parametrize(
    ("answers", "state"),
    [
        (TrustAnswers(), TrustState.OPEN),
        (EVERY_FOLDER, TrustState.TRUSTED),
        (NO_FOLDER, TrustState.DENIED),
    ],
)
def test_the_setting_decides_until_a_person_has_answered(answers: TrustAnswers, state: TrustState):
    assert answers.state_of(powers(TREES["a hook"])) is state
    assert answers.state_of(Powers()) is TrustState.UNNEEDED


@pytest.mark.parametrize(
    ("answer", "state"), [(True, TrustState.TRUSTED), (False, TrustState.DENIED)]
)
def test_an_answer_counts_for_its_digest_alone(answer: bool, state: TrustState):
    answered = powers(TREES["a hook"])
    answers = TrustAnswers(by_digest={answered.digest: answer})
    assert answers.state_of(answered) is state
    assert answers.state_of(powers(TREES["a program"])) is TrustState.OPEN


def test_what_nobody_could_read_is_not_asked():
    tree = {"hooks": {"PreToolUse": [{"command": "true " * 40_000}]}}
    assert TrustAnswers().state_of(powers(tree)) is TrustState.DENIED
    trust = FolderTrust(TrustState.DENIED, powers(tree))
    assert "too long to review" in trust.why
