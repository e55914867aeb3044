"""The tests lie in rooms of the same names as the code, and their files are as short as its modules."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("agents", "crushsite", "notifications", "people", "permissions", "workspaces")
KINDS = ("unit", "integration")
LONGEST = 400
# Folders of tests that no room has, with what they are about.
OTHERS = {
    "admin": "the modules `admin` of all packages, behind Django's pages",
    "bench": "tests/bench",
    "chaos": "tests/chaos",
    "crushclient": "the client, which is a package of its own",
    "fuzzing": "the search for commands that the policy calls read-only, but that write",
    "house": "the layout",
    "mutation": "tests/mutation",
    "simulation": "tests/simulation",
}
# Rooms whose tests lie under another name.
ELSEWHERE = {
    "agents/admin_pages": "integration/admin",
    "agents/api": "integration/api",
    "crushsite/child": "acceptance/runchild",
    "crushsite/client": "acceptance/commands",
    "crushsite/console": "acceptance/console",
    "crushsite/operators": "integration/admin",
    "crushsite/management": "acceptance/commands",
    "people/actions": "integration/people",
    "people/sso": "acceptance/serve",
    "permissions/actions": "integration/permissions",
    "permissions/api": "integration/api",
    "permissions/policy": "unit/permissions",
    "workspaces/actions": "integration/api",
    "workspaces/admin_pages": "integration/admin",
    "workspaces/models": "integration/log",
    "workspaces/queries": "integration/api",
}


def packages_in(folder: Path) -> list[Path]:
    return [
        path.parent for path in folder.glob("*/__init__.py") if path.parent.name != "migrations"
    ]


def rooms() -> list[Path]:
    return sorted(room for package in PACKAGES for room in packages_in(ROOT / package))


def folders_of_tests() -> list[Path]:
    found = (path.parent for kind in KINDS for path in (ROOT / "tests" / kind).rglob("test_*.py"))
    return sorted({path for path in found if path.name not in KINDS})


@pytest.mark.parametrize("folder", folders_of_tests(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_folder_of_tests_has_the_name_of_a_room(folder: Path) -> None:
    names = {path.parent.name for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert folder.name in names | OTHERS.keys()


@pytest.mark.parametrize("room", rooms(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_has_its_tests(room: Path) -> None:
    elsewhere = ELSEWHERE.get(str(room.relative_to(ROOT)))
    places = [elsewhere] if elsewhere else [f"{kind}/{room.name}" for kind in KINDS]
    assert any(list((ROOT / "tests" / place).rglob("test_*.py")) for place in places)


def test_no_file_of_tests_is_too_long() -> None:
    sizes = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in (ROOT / "tests").rglob("*.py")
    }
    assert {name: size for name, size in sizes.items() if size > LONGEST} == {}
