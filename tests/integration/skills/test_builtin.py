"""What the server's own skills tell a model to write is valid."""

import json
import re
from pathlib import Path

import pytest

from agents.config.load import load_config
from agents.config.problem import Problem
from agents.config.trust.decision import EVERY_FOLDER
from agents.skills.discover import BUILTIN

FILES = sorted(Path(BUILTIN).glob("*/SKILL.md"))
EXAMPLES = [
    pytest.param(example, id=f"{file.parent.name}-{number}")
    for file in FILES
    for number, example in enumerate(
        re.findall(r"^```json\n(.+?)^```", file.read_text(), re.DOTALL | re.MULTILINE)
    )
]
KEYS = {"ANTHROPIC_API_KEY": "k", "MY_KEY": "k", "TOKEN": "k"}


def problems(folder: Path, text: str) -> tuple[Problem, ...]:
    (folder / "crush.json").write_text(text)
    home = {"HOME": str(folder / "home"), "CRUSH_DISABLE_OLLAMA": "1"}
    loaded = load_config(str(folder), env=KEYS, server_env=home, answers=EVERY_FOLDER)
    return loaded.problems


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_used_without_a_problem(tmp_path: Path, example: str) -> None:
    assert problems(tmp_path, example) == ()


def test_every_option_that_is_named_is_known(tmp_path: Path) -> None:
    text = Path(BUILTIN, "crush-config", "SKILL.md").read_text()
    named = re.findall(r"^\| `([\w.]+)`", text, re.MULTILINE)
    assert len(named) >= 5
    for key in named:
        value: object = 1.5  # of no type that any option has: of a known one that is said
        for name in reversed(key.split(".")):
            value = {name: value}
        assert problems(tmp_path, json.dumps({"options": value})), key


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4
