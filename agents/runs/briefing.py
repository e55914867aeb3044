"""What a run was given to work with, or why there is nothing: its configuration may be broken."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from agents.config.settings import ModelChoice
from agents.llm.errors import ModelError
from agents.runs.brief import Brief
from agents.runs.claim import Claimed
from agents.runs.toolbox import late_servers_of, toolbox_of
from agents.turn.window import is_nearly_full


class Briefing:
    def __init__(self) -> None:
        self.brief: Brief | None = None
        self.fault = ""

    async def read(self, claimed: Claimed, brief_of: Callable[[Claimed], Awaitable[Brief]]) -> None:
        try:
            self.brief = await brief_of(claimed)
        except ModelError as error:
            self.fault = error.sentence

    async def take_late_tools(self, claimed: Claimed) -> None:
        """Before each request of the model: tools of servers that were late join now."""
        brief = self.brief
        if brief is None or not brief.late_servers:
            return
        late = late_servers_of(claimed.workspace_id, claimed.kind, brief.settings)
        if late != brief.late_servers:
            tools = await toolbox_of(claimed.workspace_id, claimed.kind, brief.settings)
            self.brief = replace(brief, tools=tools, late_servers=late)

    @property
    def late_servers(self) -> tuple[str, ...]:
        return self.brief.late_servers if self.brief is not None else ()

    @property
    def choice(self) -> ModelChoice | None:
        return self.brief.model.choice if self.brief is not None else None

    @property
    def parallel(self) -> frozenset[str]:
        """The tools that only read: their calls may run beside each other."""
        tools = self.brief.tools if self.brief is not None else {}
        return frozenset(name for name, tool in tools.items() if tool.parallel)

    def is_parallel(self, name: str) -> bool:
        tool = self.brief.tools.get(name) if self.brief is not None else None
        return tool is not None and tool.parallel

    def is_full(self, tokens: int) -> bool:
        """Whether a conversation of this size nearly fills the window, and a summary may help."""
        if self.brief is None or not self.brief.settings.auto_summarize:
            return False
        return is_nearly_full(tokens, self.brief.model.info.context_window)
