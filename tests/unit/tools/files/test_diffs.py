import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.tools.files.diffs import unified


def test_it_says_nothing_of_equal_texts() -> None:
    assert unified("a\nb\n", "a\nb\n", path="f").text == ""


def test_it_shows_a_change_in_its_place() -> None:
    before = "".join(f"{n}\n" for n in range(1, 41))
    diff = unified(before, before.replace("20\n", "twenty\nmore\n"), path="f.txt")
    assert (diff.additions, diff.removals) == (2, 1)
    assert diff.text.startswith(
        "--- a/f.txt\n+++ b/f.txt\n@@ -17,7 +17,8 @@\n 17\n 18\n 19\n-20\n+twenty\n+more\n 21\n"
    )


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [("", "a\nb\n", (2, 0)), ("a\nb\n", "", (0, 2)), ("a", "a\n", (1, 1)), ("a\n", "a\nb", (1, 0))],
)
def test_it_counts_at_the_ends(before: str, after: str, counts: tuple[int, int]) -> None:
    diff = unified(before, after, path="f")
    assert (diff.additions, diff.removals) == counts


def test_it_tells_a_missing_last_line_end() -> None:
    assert "\\ No newline at end of file" in unified("a\n", "b", path="f").text


def test_it_counts_very_different_texts_without_aligning_them() -> None:
    before = "".join(f"{n} a\n" for n in range(20_000))
    after = "".join(f"{n} b\n" for n in range(20_000))
    began = time.process_time()
    diff = unified(before, after, path="f")
    assert (diff.additions, diff.removals) == (20_000, 20_000)
    assert time.process_time() - began < 2


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n"]), max_size=30).map("".join)


@given(LINES, LINES)
def test_it_is_the_whole_files_diff(before: str, after: str) -> None:
    ours = unified(before, after, path="f")
    applied = _applied(before, ours.text)
    assert applied == after
    added = sum(line.startswith("+") for line in ours.text.splitlines()[2:])
    assert added == ours.additions
    assert ours.additions - ours.removals == after.count("\n") - before.count("\n")


def _applied(before: str, diff: str) -> str:
    """What ``patch`` would make of it."""
    old, new, at = before.splitlines(keepends=True), list[str](), 0
    for line in diff.splitlines(keepends=True)[2:]:
        if line.startswith("@@"):
            first, _, length = line.split(" ")[1][1:].partition(",")
            start = int(first) - (0 if length == "0" else 1)
            new += old[at:start]
            at = start
        elif line[0] in " -":
            assert old[at] == line[1:]
            new += [line[1:]] if line[0] == " " else []
            at += 1
        else:
            new.append(line[1:])
    return "".join([*new, *old[at:]])
