"""`bin/serve --help` before anything is installed."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from django.core.management import load_command_class

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--local-model", "--help"]])
def test_the_help_installs_nothing(tmp_path: Path, arguments: list[str]) -> None:
    shutil.copytree(ROOT / "bin", tmp_path / "bin")
    shutil.copy(ROOT / "requirements.txt", tmp_path)
    done = subprocess.run(
        ["sh", tmp_path / "bin" / "serve", *arguments], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / ".venv").exists()
    assert done.stdout.startswith("usage: bin/serve")


def test_the_help_has_every_option(tmp_path: Path) -> None:
    command = load_command_class("crushsite", "serve")
    command.suppressed_base_arguments = {"--version", "--verbosity", "--settings", "--pythonpath"}
    command.suppressed_base_arguments |= {"--traceback", "--no-color", "--force-color"}
    real = set(re.findall(r"(?<=\s)--[a-z-]+", command.create_parser("x", "serve").format_help()))
    shown = (ROOT / "bin" / "serve").read_text().partition("<<'END'")[2].partition("\nEND")[0]
    assert set(re.findall(r"(?<=^  )--[a-z-]+", shown, re.MULTILINE)) == real - {"--help"}
