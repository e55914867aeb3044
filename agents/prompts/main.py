"""The system prompts of runs: the text beside this file, then what is known of the place. Pure.

What changes least stands first, so that providers can keep the beginning cached.
"""

from __future__ import annotations

from agents.prompts.facts import PromptFacts
from agents.prompts.sections import (
    attribution_section,
    context_section,
    environment_section,
    mcp_section,
    skills_section,
)
from agents.prompts.template import template


def main_prompt(facts: PromptFacts) -> str:
    """For the run that a user prompted."""
    return _joined(
        facts.prefix,
        template("main"),
        attribution_section(facts.attribution, model_name=facts.model_name),
        mcp_section(facts.mcp_instructions),
        skills_section(facts.skills),
        context_section(facts.context),
        environment_section(facts),
    )


def agent_prompt(facts: PromptFacts) -> str:
    """For a child run that looks things up in the project. It has no skills and commits nothing."""
    return _joined(
        facts.prefix,
        template("agent"),
        context_section(facts.context),
        environment_section(facts),
    )


def fetch_prompt(facts: PromptFacts) -> str:
    """For a child run that reads the web: it is told nothing of the project."""
    environment = PromptFacts(facts.working_dir, facts.platform, facts.date)
    return _joined(facts.prefix, template("fetch"), environment_section(environment))


def _joined(*parts: str) -> str:
    return "\n\n".join(part.strip() for part in parts if part.strip())
