"""Every example of the documentation is used without a problem, and every key it names is known."""

import json
import re
from pathlib import Path

import pytest

from agents.config.providers.catalogue import known_providers

TEXT = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
EXAMPLES = re.findall(r"^```json\n(.+?)^```", TEXT, re.DOTALL | re.MULTILINE)
ENV = {"WORK_ANTHROPIC_KEY": "k", "MY_LLM_KEY": "k", "FLEET_TOKEN": "k"}


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_is_used_without_a_problem(place, example: str):
    tree = json.loads(example)
    place.write(place.project, tree)
    loaded = place.load(ENV)
    assert loaded.problems == ()
    if "models" in tree:
        assert loaded.settings.large.model == tree["models"]["large"]["model"]
        assert loaded.settings.large.provider == tree["models"]["large"]["provider"]


def test_there_are_examples():
    assert len(EXAMPLES) >= 4


def test_every_known_provider_and_its_variable_is_documented():
    for provider in known_providers().values():
        assert f"`{provider.id}`" in TEXT
        for variable in provider.key_variables:
            assert f"`{variable}`" in TEXT
