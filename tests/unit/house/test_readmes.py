"""The README of each room lists the modules of the room, and no room has too many of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
APPS = (
    "agents",
    "crushclient",
    "crushsite",
    "notifications",
    "people",
    "permissions",
    "workspaces",
)
READMES = sorted(path for app in APPS for path in (ROOT / app).rglob("README.md"))
LIMIT = 20
# Rooms that have more modules than the limit. They may only shrink.
# A table of modules has this head; "of `calls/`" names a folder below the room.
HEAD = re.compile(r"^\| modules?(?: or room)?(?: of `(?P<folder>[\w/]+)/`)? \|")
NAME = re.compile(r"`(\w+)(?:\.py)?`")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def modules_in(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")


def listed_in(page: str) -> dict[str, list[str]]:
    """The modules that the page lists, by their folder below the room; "" is the room itself."""
    listed: dict[str, list[str]] = {}
    rows: list[str] | None = None
    for line in page.splitlines():
        if head := HEAD.match(line):
            rows = listed.setdefault(head["folder"] or "", [])
        elif not line.startswith("|"):
            rows = None
        elif rows is not None:
            names = NAME.findall(line.split("|")[1])
            rows.extend(name for name in names if name != "__init__")
    return listed


@pytest.mark.parametrize("readme", READMES, ids=lambda path: name_of(path.parent))
def test_the_readme_lists_each_module_once(readme: Path) -> None:
    listed = listed_in(readme.read_text())
    assert "" in listed, "the README has no table whose head is `| module | … |`"
    for folder, names in listed.items():
        assert sorted(names) == modules_in(readme.parent / folder), folder or readme.parent.name


@pytest.mark.parametrize("readme", READMES, ids=lambda path: name_of(path.parent))
def test_the_readme_names_each_folder_of_modules(readme: Path) -> None:
    page = readme.read_text()
    folders = {
        path.parent.name
        for path in readme.parent.glob("*/__init__.py")
        if path.parent.name not in {"migrations", "management"}
    }
    assert {folder for folder in folders if f"{folder}/`" not in page} == set()


def test_no_room_has_more_modules_than_the_limit() -> None:
    folders = {path.parent for app in APPS for path in (ROOT / app).rglob("__init__.py")}
    counts = {
        name_of(folder): len(modules_in(folder))
        for folder in folders
        if folder.name != "migrations"
    }
    assert {name for name, n in counts.items() if n > LIMIT} == set()


def test_every_table_of_a_page_is_read() -> None:
    page = """
| room | what it holds |
|---|---|
| `calls/` | calls |

| module | what it does |
|---|---|
| `run`, `steps.py` | performs a run |

| module of `calls/` | what it does |
|---|---|
| `one` | one call; see `two` |

| name | used for |
|---|---|
| `other` | no module |
"""
    assert listed_in(page) == {"": ["run", "steps"], "calls": ["one"]}


def test_each_app_has_a_readme() -> None:
    assert {name_of(path.parent) for path in READMES} >= set(APPS)
