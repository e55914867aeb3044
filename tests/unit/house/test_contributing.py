"""CONTRIBUTING.md says for each typical change which files to touch, and few are needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MOST_FILES = 6
CHANGES = {
    "Add a tool",
    "Add an endpoint",
    "Add a native resource",
    "Add an event type",
    "Add a provider",
    "Add a command",
    "Add a setting",
    "Add a field to a run",
    "Add a reader transport",
    "Add a sub-agent frame",
    "Change the policy of one command",
    "Change the checkpoint interval",
    "Change the shape of a `/v1` message",
}
SECTION = re.compile(r"^### (.+)\n+((?:(?!#).*\n?)*)", re.MULTILINE)
ITEM = re.compile(r"^\d+\. (New )?`([^`]+)`", re.MULTILINE)


def typical_changes() -> dict[str, list[tuple[bool, str]]]:
    """Of each change: whether the file is new, and its path."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    part = page.split("\n## Typical changes\n", 1)[1].split("\n## ", 1)[0]
    return {
        title: [(bool(new), path) for new, path in ITEM.findall(body)]
        for title, body in SECTION.findall(part)
    }


def test_every_typical_change_has_a_list() -> None:
    assert set(typical_changes()) == CHANGES


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_no_list_is_long(change: str) -> None:
    assert 1 <= len(typical_changes()[change]) <= MOST_FILES


def test_a_field_of_a_run_needs_three_files() -> None:
    assert [Path(path).name for _, path in typical_changes()["Add a field to a run"]] == [
        "models.py",
        "NNNN_name.py",
        "rows.py",
    ]


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_the_files_exist(change: str) -> None:
    for is_new, path in typical_changes()[change]:
        place = ROOT / path
        assert (place.parent if is_new else place).exists(), path
