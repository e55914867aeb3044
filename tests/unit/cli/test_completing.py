"""What may follow the words of a command line."""

from crushsite.cli.completing import candidates


def test_commands_are_completed() -> None:
    assert candidates(["atta"]) == ["attach"]
    assert "login-link" in candidates(["log"])
    assert {"serve", "prompt", "help"} <= set(candidates([""]))


def test_options_and_their_values_are_completed() -> None:
    assert candidates(["prompt", "--strat"]) == ["--strategy"]
    assert "interrupt" in candidates(["prompt", "--strategy", ""])
    assert candidates(["answer", "1234", "--scope", "wo"]) == ["workspace"]


def test_tasks_of_a_command_are_completed() -> None:
    assert candidates(["token", "re"]) == ["revoke"]
    assert "--expires" in candidates(["token", "create", "--e"])


def test_nothing_follows_what_is_unknown() -> None:
    assert candidates(["nonsense", ""]) == []
    assert candidates(["token", "nonsense", "--x"]) == []
