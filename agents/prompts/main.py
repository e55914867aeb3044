"""The system prompts of runs: the text beside this file, then what is known of the place. Pure.

What changes least stands first, so that providers can keep the beginning cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from agents.config.context_files import ContextFile
from agents.config.settings import Attribution
from agents.prompts.facts import GitFacts, PromptFacts
from agents.prompts.template import template
from agents.skills.skill import Skill

SKILLS_LIMIT = 40_000  # characters of all skills together
MCP_LIMIT = 20_000
_NAME_LIMIT = 100
_GENERATED = "Generated with Crush"
# Forges want an address in this trailer. The domain is reserved: it is nobody's.
_ADDRESS = "noreply@crush.invalid"


def environment_section(facts: PromptFacts) -> str:
    lines = [
        "<environment>",
        f"Working directory: {_line(facts.working_dir)}",
        f"Is a git repository: {'yes' if facts.git is not None else 'no'}",
        f"Platform: {_line(facts.platform)}",
        f"Date: {_line(facts.date)}",
        *([] if facts.git is None else _git(facts.git)),
        "</environment>",
    ]
    return "\n".join(lines)


def _git(git: GitFacts) -> list[str]:
    lines = [f"Git branch: {_line(git.branch)}"] if git.branch else []
    if git.status:
        lines += ["Git status when the session began:", *(f"  {_line(x)}" for x in git.status)]
        if git.more_changes:
            lines.append(f"  … and {git.more_changes:,} more")
    elif git.branch:
        lines.append("Git status when the session began: clean")
    if git.commits:
        lines += ["Recent commits:", *(f"  {_line(commit)}" for commit in git.commits)]
    return lines


def context_section(files: Sequence[ContextFile]) -> str:
    if not files:
        return ""
    shown = "\n".join(
        f'<file path="{escape(_plain(file.path))}">\n{file.text}\n</file>' for file in files
    )
    return f"<project_instructions>\n{shown}\n</project_instructions>"


def skills_section(skills: Sequence[Skill]) -> str:
    shown: list[str] = []
    room = SKILLS_LIMIT
    told = [skill for skill in skills if skill.model_invocable]
    for skill in told:
        entry = (
            f"<skill>\n<name>{_line(skill.name)}</name>\n"
            f"<description>{_line(skill.description)}</description>\n"
            f"<location>{_line(skill.location.file)}</location>\n</skill>"
        )
        room -= len(entry)
        if room < 0:
            break
        shown.append(entry)
    if not shown:
        return ""
    more = f"\n({len(told) - len(shown)} more are not listed.)" if len(shown) < len(told) else ""
    return (
        "Skills are instructions for certain kinds of work. When a description fits what you are"
        " about to do, read the file at its location with `view` first, and follow it; files that"
        " it names lie in the same folder. Do not read those that do not fit.\n"
        "<available_skills>\n" + "\n".join(shown) + f"\n</available_skills>{more}"
    )


def mcp_section(instructions: str) -> str:
    """What connected servers say of their own tools: no more than their word."""
    said = instructions.strip()[:MCP_LIMIT]
    if not said:
        return ""
    return f"<mcp_instructions>\n{said}\n</mcp_instructions>"


def attribution_section(attribution: Attribution | None, *, model_name: str) -> str:
    if attribution is None:
        return ""
    name = _plain(model_name)[:_NAME_LIMIT].strip("<> ") or "an AI model"
    trailer = {
        "assisted-by": f"Assisted-by: {name} via Crush",
        "co-authored-by": f"Co-authored-by: {name} via Crush <{_ADDRESS}>",
    }.get(attribution.trailer_style, "")
    generated = _GENERATED if attribution.generated_with else ""
    ending = "\n\n".join(part for part in (generated, trailer) if part)
    if not ending:
        return (
            "When you are asked to commit or to open a pull request, say nothing in its text of"
            " what wrote it: no trailer, no mention of a model or a program."
        )
    said = (
        "When you are asked to commit, end the message with an empty line and exactly this, after"
        f" the project's own trailers:\n<commit_ending>\n{ending}\n</commit_ending>"
    )
    if generated:
        said += f'\nEnd the text of a pull request with the line "{generated}".'
    return said


def _plain(text: str) -> str:
    """On one line, without control characters: it may come from anywhere."""
    line = " ".join(text.split())
    return line if line.isprintable() else "".join(c if c.isprintable() else " " for c in line)


def _line(text: str) -> str:
    """That, and unable to end the element it stands in."""
    return escape(_plain(text), quote=False)


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
