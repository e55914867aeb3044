"""What a system prompt is made of, as values: gathered elsewhere, rendered elsewhere. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agents.config.context_files import ContextFile
from agents.config.settings import Attribution
from agents.skills.skill import Skill


@dataclass(frozen=True, slots=True)
class GitFacts:
    """The repository, as it was when the session began."""

    branch: str = ""
    status: tuple[str, ...] = ()  # a line each, as git's short status
    more_changes: int = 0  # that are not listed
    commits: tuple[str, ...] = ()  # the newest first


@dataclass(frozen=True, slots=True)
class PromptFacts:
    working_dir: str
    platform: str
    date: str  # the day alone: a prompt that changes with each call cannot be cached
    git: GitFacts | None = None  # ``None``: not a repository
    context: Sequence[ContextFile] = field(default=(), repr=False)
    skills: Sequence[Skill] = ()
    attribution: Attribution | None = None  # ``None``: nothing is said of it
    model_name: str = ""
    mcp_instructions: str = field(default="", repr=False)
    prefix: str = field(default="", repr=False)  # a provider's own, before everything
