"""The system prompt: the template beside this file, then facts of the place."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from workspaces.config.context_files import ContextFile


@cache
def _template() -> str:
    return Path(__file__).with_name("system.md").read_text(encoding="utf-8").strip()


def system_prompt(working_dir: str, context: Sequence[ContextFile]) -> str:
    """Stable within a day, so that providers can keep it cached."""
    today = datetime.now(UTC).date().isoformat()
    chunks = [
        _template(),
        "\n".join(
            [
                "<environment>",
                f"Working directory: {working_dir}",
                f"Is a git repository: {'yes' if (Path(working_dir) / '.git').exists() else 'no'}",
                f"Platform: {platform.system().lower()}",
                f"Date: {today}",
                "</environment>",
            ]
        ),
    ]
    if context:
        files = "\n".join(f'<file path="{file.path}">\n{file.text}\n</file>' for file in context)
        chunks.append(f"<project_instructions>\n{files}\n</project_instructions>")
    return "\n\n".join(chunks)
