"""What a terminal shows while a command works."""

import os
import pty
import subprocess
import sys
from contextlib import suppress

from tests.acceptance.harness.environment import ROOT

WORKING = """
import sys
from crushsite.client.progress import progress
with progress("Working", total=4, is_bytes=True) as advance:
    advance(3)
    sys.stdin.readline()
print("done")
"""


def test_a_terminal_shows_work_that_takes_long_and_removes_it_at_the_end() -> None:
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", WORKING],
        cwd=ROOT,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    ) as child:
        os.close(theirs)
        shown = ""
        while "3/4 bytes" not in shown:
            shown += os.read(ours, 4096).decode()
        assert "Working" in shown
        out, _ = child.communicate("\n", timeout=60)
        with suppress(OSError):  # Linux reports the closed terminal so
            shown += os.read(ours, 65_536).decode()
    os.close(ours)
    assert out == "done\n"
    assert shown.rstrip().endswith(("\x1b[2K", "\x1b[?25h"))


def test_without_a_terminal_nothing_is_shown() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORKING], cwd=ROOT, input="\n", capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("done\n", "")
