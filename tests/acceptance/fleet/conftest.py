"""A project whose agents are sub-agents."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MakeProject = Callable[..., Path]
Fleet = Callable[..., Path]


@pytest.fixture
def fleet(project: MakeProject) -> Fleet:
    """`fleet("name", executor="script", ...)`: a project whose agents are of this role."""

    def make(name: str, **role: Any) -> Path:
        return project(name, fleet={"theirs": role}, tools={"agent": {"role": "theirs"}})

    return make
