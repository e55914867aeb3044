"""An entry of the audit on one line."""

from typing import Any

from crushsite.client.management.commands.audit import line_of

ENTRY: dict[str, Any] = {
    "at": 0,
    "actor": {"name": "ann", "kind": "token"},
    "address": "10.0.0.7",
    "act": "create token",
    "target": "a laptop (crush_a1b2c3…)",
    "outcome": "done",
}


def test_a_line_has_who_what_and_the_outcome() -> None:
    line = line_of(ENTRY)
    assert line.endswith("  ann (token, 10.0.0.7)  create token a laptop (crush_a1b2c3…): done")


def test_a_narrow_terminal_cuts_the_target_and_keeps_the_outcome() -> None:
    line = line_of(ENTRY, width=60)
    assert len(line) <= 60
    assert line.endswith("…: done")


def test_an_entry_without_a_target_has_no_gap() -> None:
    assert line_of({**ENTRY, "target": ""}).endswith("create token: done")
