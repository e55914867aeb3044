"""Every built-in tool, by the name that the model calls."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from agents.tools.agent import AgentTool
from agents.tools.contract import Tool
from agents.tools.files.edit import Edit
from agents.tools.files.ls import Ls
from agents.tools.files.multiedit import MultiEdit
from agents.tools.files.view import View
from agents.tools.files.write import Write
from agents.tools.question import QuestionTool
from agents.tools.search.glob import GLOB
from agents.tools.search.grep import GREP
from agents.tools.shell.bash import Bash
from agents.tools.shell.job_kill import JobKill
from agents.tools.shell.job_output import JobOutput
from agents.tools.todos import Todos
from agents.tools.web.agentic_fetch import AgenticFetch
from agents.tools.web.download import Download
from agents.tools.web.fetch import Fetch
from agents.tools.web.sourcegraph import Sourcegraph
from agents.tools.web.web_fetch import WebFetch
from agents.tools.web.web_search import WebSearch

_ALL: tuple[Tool[Any], ...] = (
    AgenticFetch(),
    AgentTool(),
    Bash(),
    Download(),
    Edit(),
    Fetch(),
    GLOB,
    GREP,
    JobKill(),
    JobOutput(),
    Ls(),
    MultiEdit(),
    Sourcegraph(),
    QuestionTool(),
    Todos(),
    View(),
    WebFetch(),
    WebSearch(),
    Write(),
)

# The tools that only read, in the order in which a read-only agent gets them.
READ_ONLY = (
    "glob",
    "grep",
    "ls",
    "sourcegraph",
    "view",
    "lsp_diagnostics",
    "lsp_references",
    "lsp_definition",
    "lsp_symbols",
    "lsp_call_hierarchy",
)

# The tools of an agent that reads the web, in the same order.
WEB_RESEARCH = ("web_search", "web_fetch", "glob", "grep", "sourcegraph", "view")
# Only for agents that read the web.
WEB_RESEARCH_ONLY = frozenset({"web_search", "web_fetch"})

TOOLS: Mapping[str, Tool[Any]] = MappingProxyType({tool.spec.name: tool for tool in _ALL})


def available(disabled: frozenset[str]) -> Mapping[str, Tool[Any]]:
    """Returns all tools that the configuration does not disable, in a stable order."""
    return {name: tool for name, tool in TOOLS.items() if name not in disabled}
