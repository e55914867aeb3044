"""The tools that a model gets from MCP servers: those of the servers, and two for their resources."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson

from agents.llm.contract import ToolSpec
from agents.tools import arguments
from agents.tools.contract import (
    BadArguments,
    Repetition,
    RequiredPermission,
    Tool,
    ToolContext,
    ToolOutcome,
    ToolRefusal,
    load_description,
)
from agents.tools.limits import cut_middle
from agents.tools.mcp.contract import McpFailed, OfferedTool, ResourceContent
from agents.tools.mcp.host import McpHost
from agents.tools.mcp.limits import (
    MAX_CALL_BYTES,
    MAX_NAME_CHARS,
    MAX_RESULT_CHARS,
    MAX_URI_CHARS,
    TOOL_NAME_CHARS,
)
from agents.tools.mcp.schemas import fault_in
from agents.tools.mcp.server import McpServerClient

_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_CHARS = 8


async def tools_of(
    host: McpHost, workspace_id: str, *, seconds: float | None = None
) -> Mapping[str, Tool[Any]]:
    """Returns the tools for a run. ``seconds`` limits the wait for servers' first start."""
    offering = await host.offering(workspace_id, seconds=seconds)
    servers = {server.name: server for server in offering.servers}
    names = tool_names(
        (server.name, tool.name) for server in offering.servers for tool in server.offer.tools
    )
    tools: dict[str, Tool[Any]] = {}
    for server in offering.servers:
        for offered in server.offer.tools:
            name = names.get((server.name, offered.name))
            if name is not None:
                tools[name] = McpTool(name, offered, server)
    if any(server.offer.resources for server in offering.servers):
        for tool in (ListMcpResources(servers.get), ReadMcpResource(servers.get)):
            tools[tool.spec.name] = tool
    return {name: tools[name] for name in sorted(tools) if name not in offering.disabled_tools}


def tool_names(offered: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Returns a name for each (server, tool), which does not depend on their order.

    If two would share a name, both get a digest as a suffix: a server cannot take the
    name under which another server's tool was allowed.
    """
    pairs = sorted(set(offered))
    plain = {pair: _plain_name(*pair) for pair in pairs}
    counts = Counter(name.lower() for name in plain.values())
    names: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for pair in pairs:
        name = plain[pair]
        if counts[name.lower()] > 1 or len(name) > TOOL_NAME_CHARS:
            name = _name_with_digest(name, pair)
        if name.lower() not in taken:  # a name that imitates another's digest is left out
            taken.add(name.lower())
            names[pair] = name
    return names


def _plain_name(server: str, tool: str) -> str:
    return f"mcp_{_FOREIGN.sub('_', server)}_{_FOREIGN.sub('_', tool)}"


def _name_with_digest(name: str, pair: tuple[str, str]) -> str:
    digest = sha256("\0".join(pair).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{name[: TOOL_NAME_CHARS - _DIGEST_CHARS - 1]}_{digest}"


class McpTool:
    def __init__(self, name: str, offered: OfferedTool, server: McpServerClient) -> None:
        self.spec = ToolSpec(
            name=name,
            description=offered.description or f"{offered.name}, of the MCP server {server.name}.",
            schema=offered.schema,
        )
        # What a server declares decides only this: neither permissions nor what runs in parallel.
        self.repetition = Repetition.IDEMPOTENT if offered.is_repeatable else Repetition.EFFECT
        self._offered = offered
        self._server = server

    def parse(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        size = len(orjson.dumps(dict(given)))
        if size > MAX_CALL_BYTES:
            raise BadArguments(
                f"The arguments are too long: {size:,} bytes; {MAX_CALL_BYTES:,} are allowed."
            )
        fault = fault_in(given, self._offered.schema)
        if fault:
            raise BadArguments(fault)
        return given

    async def required_permission(
        self, args: Mapping[str, Any], context: ToolContext
    ) -> RequiredPermission | None:
        return RequiredPermission(
            tool_name=self.spec.name,
            action="execute",
            path=str(context.working_dir),
            description=f"Call {self._offered.name} of the MCP server {self._server.name}",
            params={name: _printable_value(value) for name, value in args.items()},
        )

    async def run(self, args: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
        try:
            return await self._server.call_tool(
                self._offered.name,
                dict(args),
                key=context.call_key,
                sees_images=context.sees_images,
            )
        except McpFailed as failure:
            raise ToolRefusal(f"MCP server {self._server.name}: {failure}") from None


def _printable_value(value: Any) -> Any:
    """Formats a value for the permission dialog: clients show nested values unformatted."""
    return orjson.dumps(value).decode() if isinstance(value, dict | list) else value


FindServer = Callable[[str], McpServerClient | None]
MCP_NAME = {"type": "string", "description": "The name of the MCP server."}


@dataclass(frozen=True, slots=True)
class ListResourcesArgs:
    mcp_name: str


class ListMcpResources:
    repetition = Repetition.PURE
    spec = ToolSpec(
        name="list_mcp_resources",
        description=load_description(__file__, "list_mcp_resources"),
        schema={"type": "object", "properties": {"mcp_name": MCP_NAME}, "required": ["mcp_name"]},
    )

    def __init__(self, find: FindServer) -> None:
        self._find = find

    def parse(self, given: Mapping[str, Any]) -> ListResourcesArgs:
        return ListResourcesArgs(_server_name(given))

    async def required_permission(
        self, args: ListResourcesArgs, context: ToolContext
    ) -> RequiredPermission | None:
        _require_server(self._find, args.mcp_name)
        return RequiredPermission(
            tool_name=self.spec.name,
            action="list",
            path=str(context.working_dir),
            description=f"List the resources of the MCP server {args.mcp_name}",
            params={"mcp_name": args.mcp_name},
        )

    async def run(self, args: ListResourcesArgs, context: ToolContext) -> ToolOutcome:  # noqa: ARG002  the tool interface requires it
        server = _require_server(self._find, args.mcp_name)
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


@dataclass(frozen=True, slots=True)
class ReadResourceArgs:
    mcp_name: str
    uri: str


class ReadMcpResource:
    repetition = Repetition.PURE
    spec = ToolSpec(
        name="read_mcp_resource",
        description=load_description(__file__, "read_mcp_resource"),
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

    def parse(self, given: Mapping[str, Any]) -> ReadResourceArgs:
        uri = arguments.text(given, "uri", max_bytes=MAX_URI_CHARS, blank=False)
        return ReadResourceArgs(_server_name(given), uri)

    async def required_permission(
        self, args: ReadResourceArgs, context: ToolContext
    ) -> RequiredPermission | None:
        _require_server(self._find, args.mcp_name)
        return RequiredPermission(
            tool_name=self.spec.name,
            action="read",
            path=str(context.working_dir),
            description=f"Read {args.uri} of the MCP server {args.mcp_name}",
            params={"mcp_name": args.mcp_name, "uri": args.uri},
        )

    async def run(self, args: ReadResourceArgs, context: ToolContext) -> ToolOutcome:  # noqa: ARG002  the tool interface requires it
        server = _require_server(self._find, args.mcp_name)
        try:
            contents = await server.read_resource(args.uri)
        except McpFailed as failure:
            raise ToolRefusal(f"MCP server {args.mcp_name}: {failure}") from None
        text = "\n".join(_shown_content(content) for content in contents)
        return ToolOutcome(cut_middle(text, MAX_RESULT_CHARS) or "The resource is empty.")


def _shown_content(content: ResourceContent) -> str:
    if content.blob:
        size = len(content.blob) * 3 // 4
        return f"[{content.uri}: {content.mime_type or 'binary'}, {size:,} bytes, not shown]"
    return content.text


def _server_name(given: Mapping[str, Any]) -> str:
    return arguments.text(given, "mcp_name", max_bytes=4 * MAX_NAME_CHARS, blank=False)


def _require_server(find: FindServer, name: str) -> McpServerClient:
    server = find(name)
    if server is None:
        raise ToolRefusal(f"There is no MCP server {name!r}.")
    return server
