"""The system prompt from a folder and its context files alone."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from agents.prompts.facts import GitFacts, PromptFacts
from agents.prompts.main import main_prompt
from workspaces.config.context_files import ContextFile


def system_prompt(working_dir: str, context: Sequence[ContextFile]) -> str:
    """Stable within a day, so that providers can keep it cached."""
    return main_prompt(
        PromptFacts(
            working_dir,
            platform.system().lower(),
            datetime.now(UTC).date().isoformat(),
            git=GitFacts() if (Path(working_dir) / ".git").exists() else None,
            context=context,
        )
    )
