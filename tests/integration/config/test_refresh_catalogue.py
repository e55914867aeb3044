"""``manage.py refresh_catalogue``, with a stand-in for the package that it reads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# The package's shape: every model that is listed, with prices that depend on the day and the hour.
PACKAGE = """
from datetime import date, time
from types import SimpleNamespace as Thing
from agents.config.providers.generate import SOURCES
from agents.config.providers.model_facts import SOURCES as FACTS

class Model:
    context_window, name, prices = 200_000, None, ()
    def __init__(self, model_id):
        self.id = model_id
    def get_prices(self, at):
        price = 2 if at.date() < date(2030, 1, 1) else 4
        if time(1) <= at.time() < time(4):
            price *= 10
        return Thing(input_mtok=price, output_mtok=3 * price, cache_write_mtok=None,
                     cache_read_mtok=Thing(base=0.5, tiers=[]))

def get_snapshot():
    listed = {}
    for source in SOURCES:
        ids = [entry.rpartition(":")[0] for entry in source.models]
        listed.setdefault(source.source, []).extend(map(Model, ids))
    for name in (name for names in FACTS.values() for name in names):
        listed.setdefault(name, [Model("a-model")])
    listed.pop(MISSING, None)
    return Thing(providers=[Thing(id=name, models=models) for name, models in listed.items()])
"""


class Refresh:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.target = folder / "catalogue.json"

    def install(self, *, missing: str = "") -> None:
        package = self.folder / "genai_prices"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").write_text("")
        (package / "data_snapshot.py").write_text(f"MISSING = {missing!r}\n{PACKAGE}")

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", "refresh_catalogue", "--output", str(self.target)]
        env = {
            **os.environ,
            "PYTHONPATH": str(self.folder),
            "CRUSH_DATA_DIR": str(self.folder / "d"),
        }
        return subprocess.run(
            [*command, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )

    @property
    def prices(self) -> set[float]:
        providers = json.loads(self.target.read_text()).values()
        return {model["cost_per_1m_in"] for provider in providers for model in provider["models"]}


@pytest.fixture
def refresh(tmp_path: Path) -> Refresh:
    return Refresh(tmp_path)


def test_it_takes_the_prices_of_most_hours_of_the_day(refresh: Refresh):
    refresh.install()
    done = refresh("--day", "2029-12-31")
    assert done.returncode == 0, done.stderr
    assert refresh.prices == {2}
    assert "+ anthropic/claude-" in done.stdout
    checked = refresh("--check", "--day", "2030-01-01")
    assert checked.returncode == 1
    assert "not up to date" in checked.stderr
    assert "cost_per_1m_in 2.0 → 4.0" in checked.stdout
    assert refresh.prices == {2}
    assert refresh("--day", "2030-01-01").returncode == 0
    assert refresh.prices == {4}
    assert refresh("--check", "--day", "2030-01-01").returncode == 0


def test_what_it_writes_is_what_the_server_reads(refresh: Refresh):
    refresh.install()
    refresh()
    own = json.loads((ROOT / "agents/config/providers/catalogue.json").read_text())
    made = json.loads(refresh.target.read_text())
    assert list(made) == list(own)
    for name, provider in own.items():
        ids = [model["id"] for model in provider["models"]]
        assert [model["id"] for model in made[name]["models"]] == ids


def test_a_package_that_lacks_a_model_is_told_and_nothing_is_written(refresh: Refresh):
    refresh.install(missing="anthropic")
    done = refresh()
    assert done.returncode == 1
    assert "lacks anthropic/" in done.stderr
    assert not refresh.target.exists()
