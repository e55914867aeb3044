"""Gathers what a system prompt tells of the place. Touches the disk and asks git."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from agents.config.context_files import find_context_files
from agents.config.settings import Settings
from agents.prompts.facts import PromptFacts
from agents.prompts.git import git_memory
from agents.skills.skill import Skill


async def gather_facts(
    settings: Settings,
    *,
    workspace: str,
    working_dir: str,
    session_id: str,
    env: Mapping[str, str],
    skills: Sequence[Skill] = (),
    model_name: str = "",
    mcp_instructions: str = "",
    prefix: str = "",
) -> PromptFacts:
    """Raises nothing for what lies there, and takes at most a few seconds."""
    async with asyncio.TaskGroup() as both:
        context = both.create_task(
            asyncio.to_thread(
                find_context_files,
                workspace,
                context_paths=settings.context_paths,
                global_context_paths=settings.global_context_paths,
            )
        )
        git = both.create_task(git_memory().facts_of(session_id, working_dir, env))
    return PromptFacts(
        working_dir=working_dir,
        platform=platform.system().lower(),
        date=datetime.now(UTC).date().isoformat(),
        git=git.result(),
        context=context.result(),
        skills=skills,
        attribution=settings.attribution,
        model_name=model_name,
        mcp_instructions=mcp_instructions,
        prefix=prefix,
    )
