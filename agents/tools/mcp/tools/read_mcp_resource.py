"""The tool that reads one resource of a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments
from agents.tools.contract import Question, ToolContext, ToolOutcome, ToolRefusal
from agents.tools.description import load_description
from agents.tools.limits import cut_middle
from agents.tools.mcp.contract import McpFailed, ResourceContent
from agents.tools.mcp.limits import MAX_RESULT_CHARS, MAX_URI_CHARS
from agents.tools.mcp.tools.list_mcp_resources import MCP_NAME, FindServer, found, server_name


@dataclass(frozen=True, slots=True)
class ReadArgs:
    mcp_name: str
    uri: str


class ReadMcpResource:
    parallel = True
    spec = ToolSpec(
        name="read_mcp_resource",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "mcp_name": MCP_NAME,
                "uri": {"type": "string", "description": "The URI of the resource."},
            },
            "required": ["mcp_name", "uri"],
        },
    )

    def __init__(self, find: FindServer) -> None:
        self._find = find

    def parse(self, given: Mapping[str, Any]) -> ReadArgs:
        uri = arguments.text(given, "uri", max_bytes=MAX_URI_CHARS, blank=False)
        return ReadArgs(server_name(given), uri)

    async def question(self, args: ReadArgs, context: ToolContext) -> Question | None:
        found(self._find, args.mcp_name)
        return Question(
            tool_name=self.spec.name,
            action="read",
            path=str(context.working_dir),
            description=f"Read {args.uri} of the MCP server {args.mcp_name}",
            params={"mcp_name": args.mcp_name, "uri": args.uri},
        )

    async def run(self, args: ReadArgs, context: ToolContext) -> ToolOutcome:  # noqa: ARG002  every tool is given it
        server = found(self._find, args.mcp_name)
        try:
            contents = await server.read_resource(args.uri)
        except McpFailed as failure:
            raise ToolRefusal(f"MCP server {args.mcp_name}: {failure}") from None
        text = "\n".join(_told(content) for content in contents)
        return ToolOutcome(cut_middle(text, MAX_RESULT_CHARS) or "The resource is empty.")


def _told(content: ResourceContent) -> str:
    if content.blob:
        size = len(content.blob) * 3 // 4
        return f"[{content.uri}: {content.mime_type or 'binary'}, {size:,} bytes, not shown]"
    return content.text
