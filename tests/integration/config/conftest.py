"""A home, a workspace in it, and a way to load what they hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agents.config.load import LoadedConfig, load_config
from agents.config.trust.decision import EVERY_FOLDER, TrustAnswers


@dataclass(frozen=True)
class Place:
    home: Path
    workspace: Path
    server_env: dict[str, str]

    @property
    def users_own(self) -> Path:
        return self.home / ".config/crush/crush.json"

    @property
    def stored_for_user(self) -> Path:
        return self.home / ".local/share/crush/crush.json"

    @property
    def data_dir(self) -> Path:
        return self.workspace / ".crush"

    @property
    def stored_for_workspace(self) -> Path:
        return self.data_dir / "crush.json"

    @property
    def project(self) -> Path:
        return self.workspace / "crush.json"

    def write(self, file: Path, content: Any) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return file

    def load(
        self,
        env: Mapping[str, str] | None = None,
        *,
        data_dir: str = "",
        answers: TrustAnswers = EVERY_FOLDER,
    ) -> LoadedConfig:
        return load_config(
            str(self.workspace),
            data_dir=data_dir,
            env=env or {},
            server_env=self.server_env,
            answers=answers,
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    home, workspace = tmp_path / "home", tmp_path / "work" / "project"
    home.mkdir()
    workspace.mkdir(parents=True)
    return Place(home, workspace, {"HOME": str(home), "CRUSH_DISABLE_OLLAMA": "1"})
