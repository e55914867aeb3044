"""Names of servers' tools that every provider takes."""

import re
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from agents.tools.mcp.tools import tool_names

FITS = re.compile(r"[A-Za-z0-9_-]{1,64}")


def test_a_plain_name_stays_as_clients_know_it() -> None:
    assert tool_names([("github", "list-issues")]) == {
        ("github", "list-issues"): "mcp_github_list-issues"
    }


def test_what_no_provider_takes_is_replaced() -> None:
    assert tool_names([("a.b", "c d/é")]) == {("a.b", "c d/é"): "mcp_a_b_c_d__"}


def test_a_long_name_keeps_its_beginning_and_is_marked() -> None:
    first, second = ("s", "x" * 100), ("s", "x" * 101)
    names = tool_names([first, second])
    assert names[first] != names[second]
    assert all(len(name) == 64 and name.startswith("mcp_s_xxx") for name in names.values())


def test_no_server_takes_the_name_under_which_another_was_allowed() -> None:
    alone = tool_names([("a_b", "c")])
    assert alone == {("a_b", "c"): "mcp_a_b_c"}
    both = tool_names([("a_b", "c"), ("a", "b_c")])
    assert "mcp_a_b_c" not in both.values()
    assert len(set(both.values())) == 2


def test_names_differ_by_more_than_their_case() -> None:
    names = tool_names([("s", "Do"), ("s", "do")])
    assert len({name.lower() for name in names.values()}) == 2


def test_the_order_in_which_servers_come_decides_nothing() -> None:
    pairs = [("a_b", "c"), ("a", "b_c"), ("z", "t")]
    assert len({tuple(sorted(tool_names(p).items())) for p in permutations(pairs)}) == 1


@given(st.lists(st.tuples(st.text(max_size=80), st.text(max_size=80)), max_size=20))
def test_whatever_servers_call_their_tools_names_fit_and_differ(
    pairs: list[tuple[str, str]],
) -> None:
    names = tool_names(pairs)
    assert all(FITS.fullmatch(name) for name in names.values())
    assert len(set(names.values())) == len(names)
