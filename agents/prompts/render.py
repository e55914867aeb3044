"""Builds the system prompts of runs: a text from this folder, then facts about the project. Pure.

The sections that change least come first, so that providers can cache the beginning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path

from agents.config.context_files import ContextFile
from agents.config.settings import Attribution
from agents.prompts.facts import GitFacts, PromptFacts
from agents.skills.skill import Skill
from agents.tools.contract import Todo

SKILLS_LIMIT = 40_000  # characters of all skills together
MCP_LIMIT = 20_000
_NAME_LIMIT = 100
_GENERATED = "Generated with Crush"
# Forges require an address in this trailer. The domain is reserved, so it has no owner.
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
    listed = [skill for skill in skills if skill.model_invocable]
    for skill in listed:
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
    more = (
        f"\n({len(listed) - len(shown)} more are not listed.)" if len(shown) < len(listed) else ""
    )
    return (
        "Skills are instructions for certain kinds of work. When a description fits what you are"
        " about to do, read the file at its location with `view` first, and follow it; files that"
        " it names lie in the same folder. Do not read those that do not fit.\n"
        "<available_skills>\n" + "\n".join(shown) + f"\n</available_skills>{more}"
    )


def mcp_section(instructions: str) -> str:
    """Returns the instructions that connected servers give for their own tools, unverified."""
    text = instructions.strip()[:MCP_LIMIT]
    if not text:
        return ""
    return f"<mcp_instructions>\n{text}\n</mcp_instructions>"


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
    text = (
        "When you are asked to commit, end the message with an empty line and exactly this, after"
        f" the project's own trailers:\n<commit_ending>\n{ending}\n</commit_ending>"
    )
    if generated:
        text += f'\nEnd the text of a pull request with the line "{generated}".'
    return text


def _plain(text: str) -> str:
    """Returns the text on one line, without control characters: its source is not trusted."""
    line = " ".join(text.split())
    return line if line.isprintable() else "".join(c if c.isprintable() else " " for c in line)


def _line(text: str) -> str:
    """Returns the plain text, escaped so that it cannot close the element around it."""
    return escape(_plain(text), quote=False)


def main_prompt(facts: PromptFacts) -> str:
    """Returns the system prompt of a run that a user prompted."""
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
    """Returns the system prompt of a child run that searches the project.

    Such a run has no skills and commits nothing.
    """
    return _joined(
        facts.prefix,
        template("agent"),
        context_section(facts.context),
        environment_section(facts),
    )


def fetch_prompt(facts: PromptFacts) -> str:
    """Returns the system prompt of a child run that reads the web, without facts of the project."""
    environment = PromptFacts(facts.working_dir, facts.platform, facts.date)
    return _joined(facts.prefix, template("fetch"), environment_section(environment))


def _joined(*parts: str) -> str:
    return "\n\n".join(part.strip() for part in parts if part.strip())


_PLACE = re.compile(r"\{\{(\w+)\}\}")


@cache
def template(name: str) -> str:
    return Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8").strip()


def filled(name: str, **values: str) -> str:
    """Returns the filled template. Raises ``KeyError`` for a placeholder without a value."""
    return _PLACE.sub(lambda place: values[place[1]], template(name))


NAME_LIMIT = 200


def init_prompt(initialize_as: str) -> str:
    """Returns the prompt that writes a project's first instructions to ``initialize_as``. Pure."""
    name = " ".join(initialize_as.replace("`", "").split())[:NAME_LIMIT]
    return filled("init", file=name or "AGENTS.md")


def summary_prompt(todos: Sequence[Todo] = ()) -> str:
    """Returns the prompt for a summary, with the session's todos. Pure."""
    if not todos:
        return template("summary")
    listed = "\n".join(f"- [{todo.status}] {todo.content}" for todo in todos)
    return (
        f"{template('summary')}\n\nThe agent keeps this list of tasks, and continues with it. Under"
        f" State, report the progress of each item:\n<todos>\n{listed}\n</todos>"
    )


def title_prompt() -> str:
    return template("title")
