"""`manage.py serve`, started and ended for a test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.harness.environment import manage, server_environment
from tests.acceptance.harness.processes import Process
from tests.acceptance.serve.starting import Serve


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """`serve("--host", …, data="name", VARIABLE="value")`: a started `manage.py serve`."""
    started: list[Process] = []

    def start(*arguments: str, data: str = "data", **env: str) -> Process:
        number = len(started)
        process = manage(
            f"serve {number}",
            ["serve", *arguments],
            env=server_environment(tmp_path / "home", tmp_path / data, env),
            log=tmp_path / f"serve-{number}.log",
        )
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill9()
