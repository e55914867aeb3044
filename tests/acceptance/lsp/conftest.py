"""A Python project, and a server for tests that do not depend on the shape."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness.shapes import Server, Shape

MakeProject = Callable[..., Path]


@pytest.fixture
def one_server(kept_servers: Callable[[Shape], Server]) -> Server:
    """For what does not depend on the shape."""
    return kept_servers(Shape.EMBEDDED)


@pytest.fixture
def project_of(project: MakeProject) -> Callable[..., Path]:
    def make(**configuration: Any) -> Path:
        folder = project(uuid.uuid4().hex, **configuration)
        (folder / "pyproject.toml").write_text("[project]\nname = 'sample'\n")
        (folder / "shop.py").write_text(
            "class Basket:\n"
            "    def total(self, price: int) -> int:\n"
            "        return tax(price)\n"
            "\n"
            "\n"
            "def tax(amount: int) -> int:\n"
            "    return amount\n"
        )
        (folder / "main.py").write_text(
            "from shop import Basket, tax\n\n\ndef main() -> None:\n"
            "    print('\N{GRINNING FACE}', Basket().total(tax(2)))\n"
        )
        return folder

    return make
