"""The console's texts: each key exists, and is there where it is used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CONSOLE = Path(__file__).parents[3] / "crushsite/console/static/console"
# The texts of these rooms load with their pages, so no other room may use them.
LATER = ("settings", "usage")
DEFINED = re.compile(r'^\s*"([\w.]+)":', re.MULTILINE)
USED = re.compile(r'\bt\(\s*"([\w.]+)"')


def texts(name: str) -> set[str]:
    return set(DEFINED.findall((CONSOLE / f"strings/en_{name}.js").read_text()))


def uses() -> dict[str, set[str]]:
    """By module: the keys of the texts that it shows."""
    modules = (path for path in CONSOLE.rglob("*.js") if "vendor" not in path.parts)
    return {str(path.relative_to(CONSOLE)): set(USED.findall(path.read_text())) for path in modules}


@pytest.mark.parametrize("room", LATER)
def test_texts_that_load_later_are_used_by_their_own_room_alone(room: str) -> None:
    own = texts(room)
    others = {name: keys & own for name, keys in uses().items() if not name.startswith(f"{room}/")}
    assert {name: keys for name, keys in others.items() if keys} == {}
    assert any(keys & own for keys in uses().values())


def test_each_text_that_is_used_exists() -> None:
    every = set().union(*(texts(path.stem[3:]) for path in CONSOLE.glob("strings/en_*.js")))
    missing = {name: keys - every for name, keys in uses().items()}
    assert {name: keys for name, keys in missing.items() if keys} == {}
