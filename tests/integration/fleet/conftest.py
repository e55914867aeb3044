"""Child processes that end with their test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.fleet.children import ChildProcess, document

StartChild = Callable[..., ChildProcess]


@pytest.fixture
def start_child(tmp_path: Path) -> Iterator[StartChild]:
    """`start_child("script", reusable=True, arguments=("--forever",))`: a running process."""
    children: list[ChildProcess] = []

    def start(
        kind: str = "script",
        *,
        arguments: tuple[str, ...] = (),
        through: list[str] | None = None,
        env: dict[str, str] | None = None,
        **more: Any,
    ) -> ChildProcess:
        fabric = tmp_path / "fabric"
        fabric.mkdir(exist_ok=True)
        child = ChildProcess(fabric, arguments=arguments, env=env or {})
        children.append(child)
        child.start(document(fabric, kind, **more), through=through)
        return child

    yield start
    for child in children:
        child.close()
