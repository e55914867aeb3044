"""The counts of a prompt's way, from hops and from the tracer's output."""

from __future__ import annotations

from tests.house.walk import Counts, Hop, counts_of, hops_of, table


def hops(*files: str, leg: str = "A") -> list[Hop]:
    return [Hop(leg, file, f"f{number}") for number, file in enumerate(files)]


def test_no_hops_are_no_returns() -> None:
    assert counts_of([]) == Counts(0, 0, 0)


def test_staying_in_a_file_is_no_return() -> None:
    assert counts_of(hops("a", "a", "b", "b")) == Counts(4, 2, 0)


def test_each_entry_of_a_file_that_was_left_is_a_return() -> None:
    assert counts_of(hops("a", "b", "a", "a", "c", "b", "a")) == Counts(7, 3, 3)


def test_calls_of_an_idle_server_are_left_out_of_every_leg() -> None:
    output = "  a.py before\n- a.py loop\nA a.py loop\nA b.py Own.<locals>.take\nB a.py send\n"
    assert hops_of(output) == [Hop("A", "b.py", "Own.<locals>.take"), Hop("B", "a.py", "send")]


def test_a_return_counts_inside_of_its_leg_only() -> None:
    way = [*hops("a", "b", "a"), *hops("b", "c", leg="B")]
    _, _, first, second, _, total = table(way).splitlines()
    assert first.endswith("| 3 | 2 | 1 |")
    assert second.endswith("| 2 | 2 | 0 |")
    assert total == "| sum; files of all | 5 | 3 | 1 |"
