"""What `crush-server` and `manage.py` list, refuse and hide."""

import re

import pytest

from crushsite.cli.program import Program, own_commands
from crushsite.program_name import command_line

OWN = sorted(name.replace("_", "-") for name in own_commands())


def listed(text: str) -> list[str]:
    return re.findall(r"^  (\S+)", text, re.MULTILINE)


def test_the_installed_program_lists_its_own_commands_alone() -> None:
    text = Program(["crush-server"]).main_help_text()
    assert sorted(listed(text)) == OWN
    assert "Django" not in text


def test_the_checkout_lists_its_own_commands_first() -> None:
    text = Program(["manage.py"]).main_help_text()
    own, _, djangos = text.partition("Django's own:")
    assert sorted(listed(own)) == OWN
    assert "makemigrations" in djangos


@pytest.mark.parametrize(
    ("program", "wanted", "said"),
    [
        ("crush-server", "promptt", "there is no command 'promptt'. Did you mean prompt?"),
        ("crush-server", "shell", "there is no command 'shell'."),
        ("manage.py", "mak", "there is no command 'mak'."),
    ],
)
def test_an_unknown_command_is_refused_with_a_way_on(
    program: str, wanted: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        Program([program]).fetch_command(wanted)
    assert ended.value.code == 2
    assert f"{program}: {said}" in capsys.readouterr().err


def test_django_commands_run_in_a_checkout() -> None:
    Program(["manage.py"]).fetch_command("makemigrations")


def test_the_checkouts_runserver_is_ours_and_the_installed_program_has_none() -> None:
    assert Program(["manage.py"]).fetch_command("runserver").__module__.startswith("crushsite.")
    with pytest.raises(SystemExit):
        Program(["crush-server"]).fetch_command("runserver")


@pytest.mark.parametrize("name", OWN)
def test_a_commands_help_has_no_options_of_django(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Program(["crush-server"]).fetch_command(name).print_help("crush-server", name)
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: crush-server {name}")
    for option in ("--settings", "--pythonpath", "--traceback", "--no-color", "--verbosity"):
        assert option not in shown


@pytest.mark.parametrize(
    ("run_as", "name", "typed"),
    [
        ("/usr/bin/crush-server", "sessions", "crush-server sessions"),
        ("/usr/bin/crush-server", "serve", "crush-server serve"),
        ("manage.py", "sessions", "manage.py sessions"),
        ("/x/manage.py", "serve", "bin/serve"),
    ],
)
def test_sentences_name_a_command_as_it_is_typed(
    run_as: str, name: str, typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [run_as])
    assert command_line(name) == typed
