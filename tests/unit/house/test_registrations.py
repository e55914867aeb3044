"""Who listens to what in a process is written in one place, `ServerProcess.wire`."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("agents", "crushsite", "notifications", "people", "permissions", "workspaces")
REGISTRATIONS = (
    r"\bwriter\.start\(",
    r"\blisten_to_output\(",
    r"\bclose_streams_by\(",
    r"\blisten_here\(",
    r"\blisten_to_measurements\(",
    r"\b(?:FIGURES|READINESS)\.watch\(",
    r"\.on_unannounced = ",
)


@pytest.mark.parametrize("registration", REGISTRATIONS)
def test_it_is_registered_by_the_process_alone(registration: str) -> None:
    users = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(registration, line) and not line.lstrip().startswith(("def ", "import "))
    }
    assert users == {"crushsite/process.py"}
