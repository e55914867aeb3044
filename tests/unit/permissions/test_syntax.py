"""How a command line is taken apart: what is not fully understood says why."""

from __future__ import annotations

import pytest

from permissions.policy.commands import check_command

NOT_UNDERSTOOD = "It is not understood."
TWO_LINES = "It breaks a word over two lines."
UNCHECKED = "It uses a part of the shell that is not checked."
CALCULATES = "It may calculate, which can run code."


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("ls (", NOT_UNDERSTOOD), ("\\ }", NOT_UNDERSTOOD), ("&&`ouch (f", NOT_UNDERSTOOD), ("ls '", NOT_UNDERSTOOD), ("echo $(", NOT_UNDERSTOOD), ("if ls", NOT_UNDERSTOOD), ("[ -f a b ]", NOT_UNDERSTOOD),
        ("for f in a; do ls", NOT_UNDERSTOOD), ("ls \\\n", NOT_UNDERSTOOD), ("{ls;}", NOT_UNDERSTOOD), ("3<<<abc cat", NOT_UNDERSTOOD), ("for f do ls; done", NOT_UNDERSTOOD),
        ("ls -a 2>/dev/null -l", NOT_UNDERSTOOD), ("cat 0<<< abc", NOT_UNDERSTOOD),
        ("\\\nls", TWO_LINES), ("\\\n\nls", TWO_LINES), ("ls;\\\nls", TWO_LINES), ("ls -\\\nl", TWO_LINES), ("ls |\\\nwc", TWO_LINES), ('echo "a\\\nb"', TWO_LINES),
        ("ls ;; ls", UNCHECKED), ("x=1 y=2", UNCHECKED), ("case x in x) ls;; esac", UNCHECKED), ("declare x", UNCHECKED),
        ("((1))", CALCULATES), ("cat <((ls) )", CALCULATES),
        ("(ls)# x", "It holds a comment that is not understood."), ("echo `ls \\\\ `", "It holds a substitution that is not understood."),
        ("$(ls)", "It runs a program whose name is computed."), ("echo >(ls)", "It writes into another command."), ("f() { ls; }", "It defines a function."),
        ("ls & ls", "It leaves a command running in the background."), ("x+=1", "It sets a variable in a way that is not checked."), ("x[0]=1", "It sets a variable in a way that is not checked."),
        ("select x in a; do ls; done", "It uses a kind of loop that is not checked."), ("((i=1))", CALCULATES), ("ls; ((1))", CALCULATES), ("for f in {1..3}; do ls; done", "It uses a kind of loop that is not checked."), ("test a =~ b", UNCHECKED),
        ("for f in a # x\ndo ls; done", "It uses a kind of loop that is not checked."), ("for ((;;)); do ls; done", UNCHECKED), ("for 1 in a; do ls; done", "It sets 1, which may change what runs."), ("[[ a == [b]]]", NOT_UNDERSTOOD),
        ("do `` do", "It holds a substitution that is not understood."), ("cat <<E\nx\nE", "It holds a here-document."), ("( " * 25 + "ls" + " )" * 25, "It is nested too deeply."),
        ("(ls); " * 10 + "( " * 25 + "ls" + " )" * 25, "It is nested too deeply."),
        ("ls " + "a" * 3998, "It is longer than 4,000 characters."), ("ls\u00a0x", "It holds characters that cannot be seen."), ("ls\x1b", "It holds characters that cannot be seen."),
        ("ls \u200b", "It holds characters that cannot be seen."), ("ls >$x", "It redirects to or from a name that is computed."), ("cat < /dev/tcp/x/1", "It reads from the network."),
        ("ls </dev/null>&1", "It redirects directly behind a word, which may set a variable."), ("[[ a == 'x && y' ]]", "A quote in it is never closed."),
        ("ls >&99999", "It redirects output into a file."), ("ls > /dev/null2", "It redirects output into a file."), ("ls >& /dev/nul", "It redirects output into a file."),
    ],
)  # fmt: skip
def test_what_is_not_understood_says_why(command, reason):
    assert check_command(command).reason == reason


def test_a_line_of_the_greatest_length_is_judged():
    assert check_command("ls " + "a" * 3997).read_only


def test_a_command_runs_all_that_it_is_made_of():
    line = "ls; (pwd) && { id; } || ! cat $(seq 1 `nproc`) | wc <(tac a)\nif rev a; then nl a; else od a; fi"
    assert check_command(line).programs == {
        "ls", "pwd", "id", "cat", "seq", "nproc", "wc", "tac", "rev", "nl", "od",
    }  # fmt: skip
    assert check_command("for f in $(ls); do wc; done; while id; do pwd; done").programs == {"ls", "wc", "id", "pwd"}  # fmt: skip
    assert check_command('x=$(pwd); [ a = b ] || [[ -f "$(ls)" ]]').programs == {"pwd", "[", "ls"}
