"""A tool of a server, as the model calls it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from agents.llm.contract import ToolSpec
from agents.tools.contract import (
    BadArguments,
    Question,
    ToolContext,
    ToolOutcome,
    ToolRefusal,
)
from agents.tools.mcp.contract import McpFailed, OfferedTool
from agents.tools.mcp.limits import MAX_CALL_BYTES
from agents.tools.mcp.schemas import fault_in
from agents.tools.mcp.server import McpServerClient

Arguments = Mapping[str, Any]


class McpTool:
    # Nobody knows what it does to the world.
    parallel = False

    def __init__(self, name: str, offered: OfferedTool, server: McpServerClient) -> None:
        self.spec = ToolSpec(
            name=name,
            description=offered.description or f"{offered.name}, of the MCP server {server.name}.",
            schema=offered.schema,
        )
        self._offered = offered
        self._server = server

    def parse(self, arguments: Arguments) -> Arguments:
        size = len(orjson.dumps(dict(arguments)))
        if size > MAX_CALL_BYTES:
            raise BadArguments(
                f"The arguments are too long: {size:,} bytes; {MAX_CALL_BYTES:,} are allowed."
            )
        fault = fault_in(arguments, self._offered.schema)
        if fault:
            raise BadArguments(fault)
        return arguments

    async def question(self, args: Arguments, context: ToolContext) -> Question | None:
        return Question(
            tool_name=self.spec.name,
            action="execute",
            path=str(context.working_dir),
            description=f"Call {self._offered.name} of the MCP server {self._server.name}",
            params={name: _printable(value) for name, value in args.items()},
        )

    async def run(self, args: Arguments, context: ToolContext) -> ToolOutcome:
        try:
            return await self._server.call_tool(
                self._offered.name, dict(args), sees_images=context.sees_images
            )
        except McpFailed as failure:
            raise ToolRefusal(f"MCP server {self._server.name}: {failure}") from None


def _printable(value: Any) -> Any:
    """A value as a permission dialog can print it: clients show nested ones as raw structures."""
    return orjson.dumps(value).decode() if isinstance(value, dict | list) else value
