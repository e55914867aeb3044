"""The README of each room of configuration and skills lists the modules of the room."""

import re
from pathlib import Path

import pytest

import agents.config
import agents.skills

CONFIG = Path(agents.config.__file__).parent
ROOMS = [CONFIG, *sorted(path.parent for path in CONFIG.glob("*/__init__.py"))]
ROOMS.append(Path(agents.skills.__file__).parent)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_the_readme_lists_each_module_once(room: Path) -> None:
    rows = re.findall(r"^\| (`.*?) \|", (room / "README.md").read_text(), flags=re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    modules = {path.stem for path in room.glob("*.py")} - {"__init__"}
    assert sorted(listed) == sorted(modules)


def test_a_room_has_at_most_twenty_modules() -> None:
    assert max(len(list(room.glob("*.py"))) - 1 for room in ROOMS) <= 20
