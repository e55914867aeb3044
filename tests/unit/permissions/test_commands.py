"""Only commands that cannot write are read-only, and anything unclear is asked about."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permissions.policy.commands import check_command, is_read_only
from permissions.policy.prefixes import is_known_locale
from tests.unit.permissions.command_table import ASKED, READ_ONLY

READS = [command for group in READ_ONLY.values() for command in group]
WRITES = [command for group in ASKED.values() for command in group]


@pytest.mark.parametrize("command", READS)
def test_it_lets_a_command_pass_that_only_reads(command):
    verdict = check_command(command)
    assert (verdict.read_only, verdict.reason) == (True, "Everything that it runs only reads.")


@pytest.mark.parametrize("command", WRITES)
def test_it_asks_about_a_command_that_may_do_more(command):
    verdict = check_command(command)
    assert not verdict.read_only
    assert verdict.reason.startswith("It ") or verdict.reason.startswith(("Its ", "A "))
    assert verdict.reason.endswith(".")


def test_the_table_is_wide_and_has_no_command_twice():
    assert len(READS) + len(WRITES) >= 400
    assert len(set(READS + WRITES)) == len(READS + WRITES)


ADDED = ["; rm x", " > f", " | tee f", " && touch f", " $(touch f)", "\ntouch f", " `touch f`",
         " >> f", " || rm x", " | sh", "\n> f"]  # fmt: skip


@pytest.mark.parametrize("added", ADDED)
def test_a_write_added_to_any_read_is_asked_about(added):
    # A remark swallows what is added to its line.
    reads = [read for read in READS if read.strip() and not read.startswith("#")]
    assert [read for read in reads if is_read_only(read + added)] == []


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(READS), st.sampled_from([";", "&&", "||", "|", "\n"]), st.sampled_from(WRITES)
)
def test_a_write_behind_any_read_is_asked_about(read, joint, write):
    if not read.strip() or read.startswith("#"):
        read = "ls"
    assert not is_read_only(f"{read} {joint} {write}")


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60) | st.text(alphabet="ls rm$(){}[]<>|&;'\"`\\\n#!=*-", max_size=60))
def test_it_never_raises(garbage):
    verdict = check_command(garbage)
    assert verdict.reason


def test_it_never_raises_on_lone_surrogates():
    assert not is_read_only("echo \ud800")


def test_it_is_quick_to_give_up_on_a_long_line():
    assert check_command("ls;" * 5_000).reason == "It is longer than 4,000 characters."


def test_it_says_which_programs_run():
    assert check_command("git log | xargs -n 1 /usr/bin/wc; cd x").programs == set()
    assert check_command("ls | xargs -n 1 /usr/bin/wc; cd x").programs == {
        "ls",
        "xargs",
        "wc",
        "cd",
    }
    assert check_command("$(git diff)").programs == set()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("cd x; git log", "It uses git in another folder."),
        ('"" x', "It runs a program whose name is computed."),
        ("env -i ls", "It changes the environment of what it runs."),
        ("nice -n 5", "It runs a program whose name is computed."),
        ("timeout x ls", "Its time limit is not understood."),
        ("PATH=. ls", "It sets PATH, which may change what runs."),
        ("ls | xargs -n", "It is given -n, which is not known to be harmless."),
        ("find . -exec ls", "It is given -exec, which is not known to only look."),
        ("sort -o f", "It is given -o, which is not known to be harmless."),
        ("ls > f", "It redirects output into a file."),
        ("cat < /dev/udp/x/1", "It reads from the network."),
        ("ls &", "It leaves a command running in the background."),
    ],
)  # fmt: skip
def test_it_says_what_it_asks_about(command, reason):
    assert check_command(command).reason == reason


def test_it_cuts_long_names_in_what_it_says():
    name = "x" * 150
    assert check_command(f"find . -{name}{name}").reason == f"It is given -{name}{name}"[:200]
    assert check_command(f"sort --{name}{name}").reason == f"It is given --{name}{name}"[:200]
    assert check_command(f"sort -o{name}{name}").reason == f"It is given -o{name}{name}"[:200]
    assert check_command(name).reason == f"It runs '{name[:60]}', which is not known to only read."
    assert (
        check_command(f"X{name}= ls").reason == f"It sets X{name[:59]}, which may change what runs."
    )
    assert (
        check_command(f"for X{name} in a; do ls; done").reason
        == check_command(f"X{name}= ls").reason
    )
    long_option = check_command(f"ls | xargs -{name}")
    assert long_option.reason == f"It is given -{name[:59]}, which is not known to be harmless."


def test_a_command_as_a_yes_or_no():
    assert is_read_only("ls") is True
    assert is_read_only("rm x") is False


@pytest.mark.parametrize(
    ("env", "known"),
    [
        ({}, True),
        ({"PATH": "/x", "LANG": "de_DE.UTF-8"}, True),
        ({"LANG": "C", "LC_ALL": ""}, True),
        ({"LANG": "zh_CN.GBK"}, False),
        ({"LANG": "C", "LC_CTYPE": "ja_JP.SJIS", "LC_TIME": "C"}, False),
        ({"LANG": "/tmp/x"}, False),
    ],
)  # fmt: skip
def test_only_locales_whose_text_is_read_as_judged_are_known(env, known):
    assert is_known_locale(env) is known


def test_it_names_what_it_does_not_know():
    assert (
        check_command("frobnicate -x").reason
        == "It runs 'frobnicate', which is not known to only read."
    )
    assert "--output" in check_command("git diff --output=f").reason
