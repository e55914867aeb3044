"""The tool that shows which resources a server offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments
from agents.tools.contract import Question, ToolContext, ToolOutcome, ToolRefusal
from agents.tools.description import load_description
from agents.tools.limits import cut_middle
from agents.tools.mcp.limits import MAX_NAME_CHARS, MAX_RESULT_CHARS
from agents.tools.mcp.server import McpServerClient

FindServer = Callable[[str], McpServerClient | None]
MCP_NAME = {"type": "string", "description": "The name of the MCP server."}


@dataclass(frozen=True, slots=True)
class ListArgs:
    mcp_name: str


class ListMcpResources:
    parallel = True
    spec = ToolSpec(
        name="list_mcp_resources",
        description=load_description(__file__),
        schema={"type": "object", "properties": {"mcp_name": MCP_NAME}, "required": ["mcp_name"]},
    )

    def __init__(self, find: FindServer) -> None:
        self._find = find

    def parse(self, given: Mapping[str, Any]) -> ListArgs:
        return ListArgs(server_name(given))

    async def question(self, args: ListArgs, context: ToolContext) -> Question | None:
        found(self._find, args.mcp_name)
        return Question(
            tool_name=self.spec.name,
            action="list",
            path=str(context.working_dir),
            description=f"List the resources of the MCP server {args.mcp_name}",
            params={"mcp_name": args.mcp_name},
        )

    async def run(self, args: ListArgs, context: ToolContext) -> ToolOutcome:  # noqa: ARG002  every tool is given it
        server = found(self._find, args.mcp_name)
        lines = [
            " ".join(
                part
                for part in (
                    resource.uri,
                    f"({resource.mime_type})" if resource.mime_type else "",
                    resource.name,
                    f"- {resource.description}" if resource.description else "",
                )
                if part
            )
            for resource in server.offer.resources
        ]
        return ToolOutcome(cut_middle("\n".join(lines), MAX_RESULT_CHARS) or "no resources")


def server_name(given: Mapping[str, Any]) -> str:
    return arguments.text(given, "mcp_name", max_bytes=4 * MAX_NAME_CHARS, blank=False)


def found(find: FindServer, name: str) -> McpServerClient:
    server = find(name)
    if server is None:
        raise ToolRefusal(f"There is no MCP server {name!r}.")
    return server
