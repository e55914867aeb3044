"""Asks about a symbol at each place where it may stand, until a server has an answer.

What is asked, and what counts as an answer, is the tool's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from agents.tools.contract import ToolContext, ToolRefusal
from agents.tools.lsp.locating import Candidate, candidates
from agents.tools.lsp.peer import RequestFailed
from agents.tools.lsp.symbol_arguments import SymbolArgs
from agents.tools.lsp.workspace import WorkspaceServers

Answer = TypeVar("Answer")


async def first_answer(
    ask: Callable[[Candidate], Awaitable[Answer | None]],
    about: SymbolArgs,
    context: ToolContext,
    servers: WorkspaceServers,
    *,
    provider: str,
    method: str,
) -> Answer | None:
    """``None`` when no place had one. Raises ``ToolRefusal`` when a server failed instead."""
    failed: RequestFailed | None = None
    async for at in candidates(
        about.symbol, about.path, context, servers, provider=provider, method=method
    ):
        try:
            answer = await ask(at)
        except RequestFailed as error:
            failed = error
            continue
        if answer is not None:
            return answer
    if failed is not None:
        raise ToolRefusal(str(failed))
    return None
