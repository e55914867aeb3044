"""crushrc files: evaluated by a real bash, merged in order, a folder's own only after trust."""

import os
import time
from pathlib import Path

import pytest

from agents.config.crushrc.bash import evaluate
from agents.config.load import load_config
from agents.config.trust.decision import (
    EVERY_FOLDER,
    NO_FOLDER,
    TrustAnswers,
    TrustState,
    request_text,
)
from tests.integration.config.conftest import Place

PROVIDER = 'provider add mine --base-url http://127.0.0.1:9/v1 --api-key "$KEY"\nmodel add mine/m\n'


def users_crushrc(place: Place) -> Path:
    return place.users_own.with_name("crushrc")


def env(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], **more}


def test_bash_decides_what_is_configured(place: Place) -> None:
    place.write(
        users_crushrc(place),
        'for name in one two; do mcp add "$name" --command "run-$name"; done\n'
        'if [ -n "$CRUSH_VERSION" ] && [ "$ROLE" = test ]; then option debug; fi\n'
        'helper() { option initialize-as "$1"; }\nhelper X.md\n',
    )
    loaded = place.load(env(ROLE="test"))
    assert loaded.problems == ()
    assert {name: s.command for name, s in loaded.settings.mcp.items()} == {
        "one": "run-one",
        "two": "run-two",
    }
    assert loaded.settings.initialize_as == "X.md"
    assert loaded.public["options"]["debug"] is True


def test_a_choice_can_be_read_back(place: Place) -> None:
    place.write(
        users_crushrc(place),
        PROVIDER + 'model large mine/m\nif [ "$(model large)" = mine/m ]; then option debug; fi\n',
    )
    loaded = place.load(env(KEY="k"))
    assert (loaded.settings.large.provider, loaded.settings.large.model) == ("mine", "m")
    assert loaded.public["options"]["debug"] is True


def test_each_file_wins_over_those_before_it(place: Place) -> None:
    (place.workspace.parent / ".git").mkdir()
    order = [
        place.users_own,
        users_crushrc(place),
        place.stored_for_user,
        place.workspace.parent / "crush.json",
        place.workspace.parent / ".crush.json",
        place.workspace.parent / "crushrc",
        place.workspace.parent / ".crushrc",
        place.workspace / "crush.json",
        place.workspace / ".crush.json",
        place.workspace / "crushrc",
        place.workspace / ".crushrc",
        place.stored_for_workspace,
    ]
    for number, file in enumerate(order):
        if file.suffix == ".json":
            place.write(file, {"options": {"initialize_as": f"{number}.md"}})
        else:
            place.write(file, f"option initialize-as {number}.md\n")
        assert place.load().settings.initialize_as == f"{number}.md", file


def test_both_formats_in_one_folder_are_a_warning(place: Place) -> None:
    place.write(place.users_own, {"options": {"debug": False}})
    place.write(users_crushrc(place), "option debug\n")
    loaded = place.load()
    (warning,) = loaded.problems
    assert warning.is_warning
    assert "takes precedence over crush.json" in str(warning)
    assert loaded.public["options"]["debug"] is True


def test_a_secret_that_bash_has_expanded_is_shown_to_nobody(place: Place) -> None:
    place.write(users_crushrc(place), PROVIDER + "model large mine/m\n")
    loaded = place.load(env(KEY="sk-very-secret"))
    assert loaded.settings.providers["mine"].api_key == "sk-very-secret"
    assert "sk-very-secret" not in str(loaded.public)
    assert "sk-very-secret" not in repr(loaded)


def test_the_server_s_own_secrets_are_not_in_its_environment(place: Place, tmp_path: Path) -> None:
    place.write(users_crushrc(place), f"env > {tmp_path / 'seen'}\n")
    place.server_env.update(
        {"DATABASE_URL": "postgres://secret", "CRUSH_SECRET_KEY": "s", "MINE": "yes"}
    )
    place.load(env(BASH_ENV="/nowhere", GIVEN="too"))
    seen = (tmp_path / "seen").read_text()
    assert "GIVEN=too" in seen
    assert "MINE=yes" in seen
    assert "postgres://secret" not in seen
    assert "CRUSH_SECRET_KEY" not in seen
    assert "BASH_ENV" not in seen


def test_problems_have_file_and_line_and_the_rest_counts(place: Place) -> None:
    file = place.write(
        users_crushrc(place), "option debug\nno_such_command\nmcp add x --bogus\noption progress\n"
    )
    loaded = place.load()
    assert [(p.file, p.line) for p in loaded.problems] == [(str(file), 2), (str(file), 3)]
    assert "command not found" in loaded.problems[0].message
    assert loaded.public["options"]["progress"] is True


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("option debug\nif true; then\n", "syntax error"),
        ("option debug\nexit 3\n", "exit code 3"),
        ("option debug\nkill -9 $$\n", "exit code -9"),
        ("option debug\necho 'never closed\n", "unexpected EOF"),
    ],
)
def test_what_held_before_holds_while_a_file_is_broken(place: Place, text: str, words: str) -> None:
    file = place.write(users_crushrc(place), "option initialize-as GOOD.md\n")
    good = place.load()
    place.write(file, text)
    for last, holds in ((good.ran, "GOOD.md"), ({}, "AGENTS.md")):
        loaded = load_config(
            str(place.workspace), env={}, server_env=place.server_env, last_trees=last
        )
        assert loaded.settings.initialize_as == holds
        assert words in str(loaded.problems[0])
        assert str(file) in str(loaded.problems[0])


def test_a_program_that_does_not_end_is_stopped_with_what_it_started(tmp_path: Path) -> None:
    file = tmp_path / "crushrc"
    file.write_text(f"option debug\nsleep 600 & echo $! > {tmp_path / 'pid'}\nsleep 600\n")
    began = time.monotonic()
    evaluated = evaluate(str(file), env=env(), seconds=3)
    assert time.monotonic() - began < 60
    assert evaluated.trees == ()
    assert "longer than 3 seconds" in str(evaluated.fault)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_background_program_does_not_delay_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "crushrc"
    file.write_text("sleep 600 &\noption debug\n")
    evaluated = evaluate(str(file), env=env(), seconds=60)
    assert evaluated.trees == ({"options": {"debug": True}},)


def test_a_program_that_writes_into_the_report_configures_nothing(tmp_path: Path) -> None:
    file = tmp_path / "crushrc"
    file.write_text(
        "for fd in /proc/self/fd/*; do n=${fd##*/}; [ $n -gt 2 ] && echo x >&$n; done 2>/dev/null\noption debug\n"
    )
    evaluated = evaluate(str(file), env=env())
    assert evaluated.trees == ()
    assert evaluated.fault is not None


@pytest.mark.parametrize(
    "line",
    ["provider add mine --bogus 1", "model lareg mine/m", "providr add mine", ". missing-keys"],
)
def test_no_model_stands_in_for_one_that_a_failed_line_may_have_chosen(
    place: Place, line: str
) -> None:
    file = place.write(users_crushrc(place), f"{line}\noption debug\n")
    loaded = place.load()
    assert f"{file}:1:1: " in loaded.settings.large.fault
    assert "the configuration has an error" in loaded.settings.large.fault
    assert loaded.public["options"]["debug"] is True


def test_a_failed_line_about_something_else_prevents_no_model(place: Place) -> None:
    place.write(users_crushrc(place), "lsp add x --bogus 1\n")
    loaded = place.load()
    assert loaded.problems
    assert loaded.settings.large.fault == ""


# -- a folder's own


def test_a_folder_s_crushrc_does_not_run_before_trust(place: Place, tmp_path: Path) -> None:
    file = place.write(place.workspace / "crushrc", f"touch {tmp_path / 'ran'}\noption debug\n")
    loaded = place.load(answers=TrustAnswers())
    assert loaded.trust.state is TrustState.OPEN
    (line,) = [power.line for power in loaded.trust.powers.items]
    assert line == "crushrc: runs this program of 2 lines, which may configure anything"
    assert "debug" not in loaded.public["options"]
    assert str(file) in " ".join(loaded.public["problems"])
    assert not (tmp_path / "ran").exists()
    for denied in (NO_FOLDER, TrustAnswers(by_digest={loaded.trust.powers.digest: False})):
        assert "debug" not in place.load(answers=denied).public["options"]
    assert not (tmp_path / "ran").exists()

    trusted = TrustAnswers(by_digest={loaded.trust.powers.digest: True})
    assert place.load(answers=trusted).public["options"]["debug"] is True
    assert (tmp_path / "ran").exists()


def test_its_text_is_part_of_the_question_without_secrets(place: Place) -> None:
    place.write(
        place.workspace / ".crushrc",
        "mcp add x --command sh --env API_TOKEN=sk-abcdef0123456789abcdef\n# \x1b[2Jgone\n",
    )
    powers = place.load(answers=TrustAnswers()).trust.powers
    description, params = request_text(powers, folder=str(place.workspace))
    assert "mcp add x --command sh" in params["programs"]
    assert "\\x1b[2Jgone" in params["programs"]
    assert "mcp add x --command sh" in description
    assert "sk-abcdef0123456789abcdef" not in description + str(params)


def test_a_program_that_is_too_long_to_read_is_not_run(place: Place) -> None:
    place.write(place.workspace / "crushrc", "option debug # filler\n" * 10_000)
    loaded = place.load(answers=TrustAnswers())
    assert loaded.trust.state is TrustState.DENIED
    assert "too long to review" in str(loaded.problems[0])


def test_a_changed_crushrc_is_asked_about_again(place: Place) -> None:
    place.write(place.workspace / "crushrc", "permissions allow view\n")
    digest = place.load(answers=TrustAnswers()).trust.powers.digest
    trusted = TrustAnswers(by_digest={digest: True})
    assert place.load(answers=trusted).settings.allowed_tools == {"view"}
    place.write(place.workspace / "crushrc", "permissions allow bash\n")
    changed = place.load(answers=trusted)
    assert changed.trust.state is TrustState.OPEN
    assert changed.settings.allowed_tools == frozenset()


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("source lib/more.sh", "lib/more.sh"),
        (". ./more", "more"),
        ('. "${BASH_SOURCE%/*}/more.sh"', "more.sh"),
        ('source "$(dirname "${BASH_SOURCE[0]}")"/more.sh', "more.sh"),
        ("source 'my lib.sh'", "my lib.sh"),
        ('option initialize-as "$(sh tools/name.sh)"', "tools/name.sh"),
        ("source one.sh", "two.sh"),
    ],
)
def test_what_a_crushrc_runs_of_its_folder_belongs_to_the_answer(
    place: Place, line: str, file: str
) -> None:
    place.write(place.workspace / "one.sh", '[ -z "$X" ] || true; . ./two.sh\n')
    named = place.write(place.workspace / file, "true\n")
    place.write(place.workspace / "crushrc", f"{line}\noption debug\n")
    asked = place.load(answers=TrustAnswers()).trust
    assert str(named) in request_text(asked.powers, folder="/p")[1]["files"]
    trusted = TrustAnswers(by_digest={asked.powers.digest: True})
    assert place.load(answers=trusted).trust.state is TrustState.TRUSTED
    place.write(named, "permissions allow bash\n")
    changed = place.load(answers=trusted)
    assert changed.trust.state is TrustState.OPEN
    assert changed.settings.allowed_tools == frozenset()


def test_a_file_that_a_crushrc_only_has_read_may_change(place: Place) -> None:
    rules = place.write(place.workspace / "docs/STYLE.md", "one")
    place.write(place.workspace / "crushrc", "option context-path docs/STYLE.md\n")
    trust = place.load(answers=TrustAnswers()).trust
    rules.write_text("two")
    assert place.load(answers=TrustAnswers()).trust.powers.digest == trust.powers.digest


def test_a_folder_s_crushrc_gets_no_key_from_elsewhere(place: Place) -> None:
    place.write(place.users_own, {"providers": {"anthropic": {"api_key": "sk-own"}}})
    place.write(place.workspace / "crushrc", "provider add anthropic --base-url http://evil/v1\n")
    loaded = place.load(answers=EVERY_FOLDER)
    assert "sk-own" not in str(loaded.settings.providers)


def test_a_folder_s_crushrc_cannot_move_the_data_directory(place: Place) -> None:
    place.write(place.workspace / "crushrc", "option data-directory elsewhere\noption debug\n")
    loaded = place.load()
    assert loaded.data_dir == str(place.workspace / ".crush")
    assert "crush.json" in str(loaded.problems[0])
    assert loaded.public["options"]["debug"] is True


def test_another_user_s_crushrc_is_not_run(place: Place) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a file away")
    file = place.write(place.workspace / "crushrc", "option debug\n")
    os.chown(file, 12345, 12345)
    loaded = place.load()
    assert "another user" in str(loaded.problems[0])
    assert "debug" not in loaded.public["options"]
