"""What of a folder's own files counts before, with and after a person's answer."""

import os

import pytest

from agents.config.trust.decision import TrustAnswers, TrustState
from tests.integration.config.conftest import Place

ASK = TrustAnswers()
GATEWAY = "https://gateway.example/v1"


def provider(**more: object) -> dict:
    return {"base_url": GATEWAY, "models": [{"id": "m"}]} | more


def allowed(place: Place, env: dict[str, str] | None = None) -> TrustAnswers:
    digest = place.load(env, answers=ASK).trust.powers.digest
    return TrustAnswers(by_digest={digest: True})


def test_an_untrusted_address_is_not_used_and_the_prompt_stays_with_the_users_provider(place):
    place.write(place.users_own, {"providers": {"anthropic": {"api_key": "sk-own"}}})
    place.write(place.project, {"providers": {"anthropic": {"base_url": "https://evil.example"}}})
    loaded = place.load(answers=ASK)
    anthropic = loaded.settings.providers["anthropic"]
    assert anthropic.base_url == "https://api.anthropic.com"
    assert anthropic.api_key == "sk-own"
    assert loaded.trust.state is TrustState.OPEN
    (problem,) = loaded.problems
    assert problem.is_warning
    assert str(problem).startswith(f"{place.project}: providers.anthropic: is left out until")


@pytest.mark.parametrize(
    ("own", "variables"),
    [
        ({"api_key": "sk-own"}, {}),
        ({"oauth": {"access_token": "sk-own"}}, {}),
        ({"extra_headers": {"X-Key": "sk-own"}}, {}),
        ({"extra_body": {"key": "sk-own"}}, {}),
        ({}, {"ANTHROPIC_API_KEY": "sk-own"}),
    ],
)
@pytest.mark.parametrize("stored", ["users_own", "stored_for_user"])
def test_a_folders_address_never_gets_a_key_from_elsewhere_also_when_it_is_trusted(
    place, own: dict, variables: dict, stored: str
):
    place.write(getattr(place, stored), {"providers": {"anthropic": own}})
    place.write(place.project, {"providers": {"anthropic": provider()}})
    loaded = place.load(variables, answers=allowed(place, variables))
    assert loaded.trust.state is TrustState.TRUSTED
    anthropic = loaded.settings.providers["anthropic"]
    assert anthropic.base_url == GATEWAY
    assert "sk-own" not in repr((anthropic.api_key, anthropic.extra_headers, anthropic.extra_body))
    if own:
        assert any("not sent to the address" in str(problem) for problem in loaded.problems)


@pytest.mark.parametrize(
    ("section", "own", "folders"),
    [
        ("mcp", {"url": "https://mine", "headers": {"A": "sk-own"}}, {"url": "https://evil"}),
        ("mcp", {"url": "https://mine", "oauth_client_secret": "sk-own"}, {"url": "https://evil"}),
        ("mcp", {"command": "mine", "env": {"A": "sk-own"}}, {"command": "./evil"}),
        ("mcp", {"command": "npx", "args": ["a"], "env": {"A": "sk-own"}}, {"args": ["evil"]}),
        ("lsp", {"command": "mine", "env": {"A": "sk-own"}}, {"command": "./evil"}),
        ("fleet", {"endpoint": "wss://mine", "token": "sk-own"}, {"endpoint": "wss://evil"}),
    ],
)
def test_no_server_that_a_folder_chose_gets_a_key_from_elsewhere(
    place, section: str, own: dict, folders: dict
):
    place.write(place.users_own, {section: {"x": own}})
    assert "sk-own" in repr(_sealed(place.load(answers=ASK), section))
    place.write(place.project, {section: {"x": folders}})
    loaded = place.load(answers=allowed(place))
    assert loaded.trust.state is TrustState.TRUSTED
    assert "sk-own" not in repr(_sealed(loaded, section))
    assert any("not sent to the" in str(problem) for problem in loaded.problems)
    place.write(place.project, {section: {"x": {"disabled": False}}})
    assert "sk-own" in repr(_sealed(place.load(answers=allowed(place)), section))


def _sealed(loaded, section: str) -> list:
    """What the server is given that a ``repr`` of settings does not show."""
    found = getattr(loaded.settings, section)["x"]
    names = ("headers", "env", "oauth_client_secret", "token")
    return [getattr(found, name, None) for name in names]


def test_a_key_that_was_stored_for_the_workspace_is_not_sent_to_the_folders_address(place):
    place.write(place.project, {"providers": {"mine": provider()}})
    place.write(place.data_dir / "elsewhere/crush.json", {"providers": {"mine": {"api_key": "k"}}})
    loaded = place.load(data_dir=str(place.home / "data"), answers=allowed(place))
    assert loaded.settings.providers["mine"].api_key == ""


def test_a_trusted_folders_own_variable_is_sent_to_its_own_address(place):
    place.write(place.project, {"providers": {"mine": provider(api_key="$TEAM_KEY")}})
    env = {"TEAM_KEY": "sk-team"}
    assert "mine" not in place.load(env, answers=ASK).settings.providers
    mine = place.load(env, answers=allowed(place, env)).settings.providers["mine"]
    assert (mine.base_url, mine.api_key) == (GATEWAY, "sk-team")


def test_an_address_of_the_user_keeps_its_key_whatever_the_folder_says(place):
    place.write(place.users_own, {"providers": {"mine": provider(api_key="sk-own")}})
    place.write(place.project, {"providers": {"mine": {"models": [{"id": "n"}]}}})
    mine = place.load(answers=ASK).settings.providers["mine"]
    assert (mine.base_url, mine.api_key) == (GATEWAY, "sk-own")
    assert [model.id for model in mine.models] == ["n"]


@pytest.mark.parametrize("kind", ["bedrock", "vertex"])
def test_a_cloud_account_of_the_machine_is_not_used_at_a_folders_address(place, kind: str):
    place.write(place.project, {"providers": {kind: provider(type=kind)}})
    env = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    loaded = place.load(env, answers=allowed(place, env))
    assert kind not in loaded.settings.providers
    assert "an address that this folder chose needs a key of its own" in str(loaded.problems[-1])


def test_no_variable_is_read_for_an_untrusted_folder(place):
    place.write(
        place.project,
        {
            "providers": {"a": provider(extra_headers={"X": "$SECRET"})},
            "mcp": {"b": {"url": "http://h/$SECRET"}, "c": {"command": "x", "args": ["$SECRET"]}},
            "lsp": {"d": {"command": "x", "env": {"E": "$SECRET"}}},
            "fleet": {"f": {"endpoint": "wss://h", "token": "$SECRET"}},
        },
    )
    settings = place.load({"SECRET": "s3cret"}, answers=ASK).settings
    held = (settings.mcp, settings.lsp, settings.fleet)
    assert all(not section for section in held)
    assert "a" not in settings.providers


def test_stored_choices_that_came_with_the_folder_are_the_folders(place):
    place.write(place.stored_for_workspace, {"mcp": {"x": {"command": "evil"}}})
    loaded = place.load(answers=ASK)
    assert loaded.trust.state is TrustState.OPEN
    assert loaded.settings.mcp == {}


def test_stored_choices_outside_of_the_folder_are_the_users(place):
    data_dir = place.home / "data"
    place.write(data_dir / "crush.json", {"mcp": {"x": {"command": "mine"}}})
    loaded = place.load(data_dir=str(data_dir), answers=ASK)
    assert loaded.trust.state is TrustState.UNNEEDED
    assert set(loaded.settings.mcp) == {"x"}


@pytest.mark.parametrize("outside", ["~/.ssh", "/etc", "../other"])
def test_a_projects_data_directory_stays_in_the_project(place, outside: str):
    place.write(place.project, {"options": {"data_directory": outside}})
    loaded = place.load()
    assert loaded.data_dir == str(place.data_dir)
    assert "is outside the folder" in str(loaded.problems[0])
    place.write(place.project, {"options": {"data_directory": "state"}})
    assert place.load().data_dir == str(place.workspace / "state")
    (place.workspace / "link").symlink_to(place.home)
    place.write(place.project, {"options": {"data_directory": "link/x"}})
    assert place.load().data_dir == str(place.data_dir)


def test_a_script_of_the_folder_is_asked_for_again_when_it_changes(place):
    script = place.write(place.workspace / "tools/guard.sh", "exit 0")
    hook = {"command": "sh tools/guard.sh --now"}
    place.write(place.project, {"hooks": {"PreToolUse": [hook]}})
    answers = allowed(place)
    loaded = place.load(answers=answers)
    assert loaded.trust.state is TrustState.TRUSTED
    assert str(script) in loaded.files  # so that a change is seen
    script.write_text("id > OWNED")
    assert place.load(answers=answers).trust.state is TrustState.OPEN


@pytest.mark.parametrize(
    ("file", "entry"),
    [
        ("x.so", {"command": "server", "env": {"LD_PRELOAD": "./x.so"}}),
        ("bin/a", {"command": "server", "env": {"X_PATH": "/usr/bin:bin/a"}}),
        ("my tool.sh", {"command": "sh", "args": ["-c", "exec './my tool.sh'"]}),
        ("x.sh", {"command": "sh", "args": ["-c", "$PWD/x.sh"]}),
        ("x.sh", {"command": "sh", "args": ["-c", '"$(pwd)"/x.sh']}),
        ("../above/x.sh", {"command": "../above/x.sh"}),
        ("x.sh", {"command": "sh", "args": [f"{'a' * 10}{n}" for n in range(200)] + ["x.sh"]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_file_of_the_work_tree_that_is_named_belongs_to_the_answer(place, file, entry):
    (place.workspace.parent / ".git").mkdir()
    named = place.write(place.workspace / file, "exit 0")
    place.write(place.project, {"mcp": {"x": entry}})
    answers = allowed(place)
    assert place.load(answers=answers).trust.state is TrustState.TRUSTED
    named.write_text("id > OWNED")
    assert place.load(answers=answers).trust.state is TrustState.OPEN


def test_more_files_than_anyone_would_look_through_are_not_asked_about(place):
    names = [f"tool{number}" for number in range(70)]
    for name in names:
        place.write(place.workspace / name, "exit 0")
    place.write(place.project, {"mcp": {"x": {"command": "sh", "args": names}}})
    loaded = place.load(answers=ASK)
    assert loaded.trust.state is TrustState.DENIED
    assert loaded.settings.mcp == {}


def test_the_end_of_a_very_large_program_belongs_to_the_answer(place):
    program = place.write(place.workspace / "x", "a" * (5 << 20))
    place.write(place.project, {"mcp": {"x": {"command": "./x"}}})
    answers = allowed(place)
    assert place.load(answers=answers).trust.state is TrustState.TRUSTED
    before = program.stat()
    with program.open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"b")
    os.utime(program, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert place.load(answers=answers).trust.state is TrustState.OPEN


def test_a_file_above_the_workspace_in_the_same_work_tree_is_the_folders_too(place):
    (place.workspace.parent / ".git").mkdir()
    place.write(place.workspace.parent / "crush.json", {"permissions": {"allowed_tools": ["bash"]}})
    loaded = place.load(answers=ASK)
    assert loaded.settings.allowed_tools == frozenset()
    assert loaded.trust.state is TrustState.OPEN


def test_an_installed_server_that_runs_project_code_needs_trust(place):
    programs = place.home / "bin"
    for name in ("rust-analyzer", "clangd"):
        program = place.write(programs / name, "#!/bin/sh\n")
        program.chmod(0o755)
    env = {"PATH": str(programs)}
    assert place.load(env, answers=ASK).trust.state is TrustState.UNNEEDED
    place.write(place.workspace / "crates/one/Cargo.toml", "")
    place.write(place.workspace / "compile_flags.txt", "")
    loaded = place.load(env, answers=ASK)
    assert loaded.trust.state is TrustState.OPEN
    (line,) = [item.line for item in loaded.trust.powers.items]
    assert line == (
        "language server: rust-analyzer, which may run code of this folder (Cargo.toml)"
    )
    assert not loaded.settings.runs_project_code
    assert place.load(env, answers=allowed(place, env)).settings.runs_project_code
    place.write(place.users_own, {"options": {"auto_lsp": False}})
    assert place.load(env, answers=ASK).trust.state is TrustState.UNNEEDED


def test_a_skill_of_the_folder_can_allow_nothing(place):
    text = "---\nname: s\ndescription: d\nallowed-tools: bash\nhooks: x\n---\nRun `id`."
    place.write(place.workspace / ".crush/skills/s/SKILL.md", text)
    loaded = place.load(answers=ASK)
    assert loaded.trust.state is TrustState.UNNEEDED
    assert loaded.settings.allowed_tools == frozenset()


def digest_of(place, content):
    place.write(place.project, content)
    return place.load(answers=TrustAnswers()).trust.powers.digest


@pytest.mark.parametrize(
    "content",
    [
        {"mcp": {"m": {"command": "node", "args": ["server.js", "--db", "notes.db"]}}},
        {"mcp": {"m": {"command": "my-server", "args": ["--log=notes.db"]}}},
        {"mcp": {"m": {"command": "my-server", "env": {"DB_PATH": "notes.db"}}}},
        {"hooks": {"PreToolUse": [{"command": "node hook.js >> notes.db 2>&1"}]}},
    ],
)
def test_what_a_trusted_command_writes_is_not_asked_about_again(place, content):
    place.write(place.workspace / "notes.db", "one")
    before = digest_of(place, content)
    place.write(place.workspace / "notes.db", "two")
    assert digest_of(place, content) == before


@pytest.mark.parametrize(
    "content",
    [
        {"mcp": {"m": {"command": "sh", "args": ["notes.db"]}}},
        {"mcp": {"m": {"command": "/usr/bin/python3.11", "args": ["-u", "notes.db"]}}},
        {"mcp": {"m": {"command": "sh", "args": ["-c", "cat notes.db | sh"]}}},
        {"mcp": {"m": {"command": "my-server", "env": {"BASH_ENV": "notes.db"}}}},
        {"mcp": {"m": {"command": "./notes.db"}}},
        {"hooks": {"PreToolUse": [{"command": "cat notes.db | sh"}]}},
        {"hooks": {"PreToolUse": [{"command": "echo x > notes.db; sh notes.db"}]}},
        {"hooks": {"PreToolUse": [{"command": "sh < notes.db"}]}},
    ],
)
def test_a_program_is_not_data_whatever_its_name_is(place, content):
    place.write(place.workspace / "notes.db", "one")
    before = digest_of(place, content)
    place.write(place.workspace / "notes.db", "two")
    assert digest_of(place, content) != before


def test_an_executable_file_is_not_data(place):
    content = {"mcp": {"m": {"command": "my-server", "args": ["--run", "notes.db"]}}}
    file = place.write(place.workspace / "notes.db", "one")
    file.chmod(0o755)
    before = digest_of(place, content)
    place.write(file, "two")
    assert digest_of(place, content) != before
