"""MCP servers: their states, what they offer, and logins to them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.mcp_servers import server_named
from agents.config.cache import configs
from agents.mcp_models import McpServer
from agents.tools.mcp.contract import McpChange, McpFailed, McpStatus, Offer
from agents.tools.mcp.limits import MAX_ARGUMENTS, MAX_NAME_CHARS, MAX_URI_CHARS
from agents.tools.mcp.server import McpServerClient
from workspaces.access import Right
from workspaces.log.errors import McpServerFailed, McpServerUnknown
from workspaces.log.timestamps import as_seconds
from workspaces.rest.view import Resource

logger = logging.getLogger(__name__)

ARGUMENT_CHARS = 100_000
LOGIN_WAIT_SECONDS = 10.0
_LOOK_SECONDS = 0.1
_CHANGES = {
    "tools": McpChange.TOOLS,
    "prompts": McpChange.PROMPTS,
    "resources": McpChange.RESOURCES,
}
_logins: set[asyncio.Task[None]] = set()


class McpServerSerializer(serializers.Serializer[Any]):
    """The state of an MCP server."""

    name = serializers.CharField(help_text="Its name in the configuration.")
    state = serializers.ChoiceField(
        [state.value for state in McpStatus], help_text="Whether it works."
    )
    error = serializers.CharField(help_text="Why it does not work; empty if it does.")
    tool_count = serializers.IntegerField(help_text="The number of its tools.")
    prompt_count = serializers.IntegerField(help_text="The number of its prompts.")
    resource_count = serializers.IntegerField(help_text="The number of its resources.")
    connected_at = serializers.IntegerField(
        allow_null=True, help_text="When it was connected, in unix seconds; null if it is not."
    )


class McpToolSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="The server's own name of the tool.")
    description = serializers.CharField(help_text="What it does; may be empty.")
    schema = serializers.DictField(help_text="The JSON Schema of its arguments.")


class McpArgumentSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="The argument's name.")
    title = serializers.CharField(help_text="A title to show; may be empty.")
    description = serializers.CharField(help_text="What it is; may be empty.")
    required = serializers.BooleanField(  # type: ignore[assignment]  # a field of this name
        help_text="Whether the prompt needs it."
    )


class McpPromptSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="The server's own name of the prompt.")
    title = serializers.CharField(help_text="A title to show; may be empty.")
    description = serializers.CharField(help_text="What it is for; may be empty.")
    arguments = McpArgumentSerializer(many=True, help_text="What it takes.")


class McpResourceSerializer(serializers.Serializer[Any]):
    uri = serializers.CharField(help_text="Its address.")
    name = serializers.CharField(help_text="Its name.")
    description = serializers.CharField(help_text="What it is; may be empty.")
    mime_type = serializers.CharField(help_text="Its media type; may be empty.")


class McpServerDetailSerializer(McpServerSerializer):
    """An MCP server with what it offers."""

    tools = McpToolSerializer(many=True, help_text="Its tools.")
    prompts = McpPromptSerializer(many=True, help_text="Its prompts.")
    resources = McpResourceSerializer(many=True, help_text="Its resources.")


class McpRefreshSerializer(serializers.Serializer[Any]):
    list = serializers.ChoiceField(list(_CHANGES), default="tools", help_text="What to read again.")


class McpPromptRequestSerializer(serializers.Serializer[Any]):
    prompt = serializers.CharField(max_length=MAX_NAME_CHARS, help_text="The prompt's name.")
    arguments = serializers.DictField(
        child=serializers.CharField(max_length=ARGUMENT_CHARS, allow_blank=True),
        default=dict,
        help_text="The arguments by their names.",
    )

    def validate_arguments(self, value: dict[str, str]) -> dict[str, str]:
        if len(value) > MAX_ARGUMENTS:
            raise serializers.ValidationError(f"must have at most {MAX_ARGUMENTS} arguments")
        return value


class McpPromptTextSerializer(serializers.Serializer[Any]):
    text = serializers.CharField(help_text="The text of the prompt.", trim_whitespace=False)


class McpResourceRequestSerializer(serializers.Serializer[Any]):
    uri = serializers.CharField(max_length=MAX_URI_CHARS, help_text="The resource's address.")


class McpContentSerializer(serializers.Serializer[Any]):
    uri = serializers.CharField(help_text="The address of this part.")
    mime_type = serializers.CharField(help_text="Its media type; may be empty.")
    text = serializers.CharField(help_text="Its text; empty for others.", trim_whitespace=False)
    blob = serializers.CharField(help_text="Other content in base64; empty for text.")


class McpContentsSerializer(serializers.Serializer[Any]):
    contents = McpContentSerializer(many=True, help_text="The parts of the resource.")


class McpLoginSerializer(serializers.Serializer[Any]):
    auth_url = serializers.CharField(
        help_text="The address to open in a browser; empty if the login has ended already."
    )


class McpServerList(Resource):
    """The MCP servers of a workspace, by name, with those that are configured and not started."""

    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})
    serializer_class = McpServerSerializer
    ordering = ("name",)

    def get(self, _: Request, workspace_id: str) -> Response:
        return Response({"items": shown_servers(self, workspace_id), "next": None})


class McpServerDetail(Resource):
    """One MCP server with what it offers."""

    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})
    serializer_class = McpServerDetailSerializer

    def get(self, _: Request, workspace_id: str, name: str) -> Response:
        state = next((s for s in shown_servers(self, workspace_id) if s["name"] == name), None)
        if state is None:
            raise McpServerUnknown
        return Response(state | _offer(self.act(_offer_of, workspace_id, name)))


class McpServerRefresh(Resource):
    """The reading of a server's lists, which also retries a server that failed."""

    rights: ClassVar = {"post": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"post"})
    serializer_class = McpRefreshSerializer

    @extend_schema(responses={204: None})
    def post(self, _: Request, workspace_id: str, name: str) -> Response:
        """Reads a list again, and answers when that is done. Events report changes."""
        change = _CHANGES[self.body()["list"]]
        self.act(_from_server, workspace_id, name, lambda server: server.refresh(change))
        return Response(status=204)


class McpServerPrompt(Resource):
    """The text of a prompt that a server offers."""

    rights: ClassVar = {"post": Right.PROMPT}
    folder_methods: ClassVar = frozenset({"post"})
    serializer_class = McpPromptRequestSerializer

    @extend_schema(responses={200: McpPromptTextSerializer})
    def post(self, _: Request, workspace_id: str, name: str) -> Response:
        """Returns the text of the prompt with these arguments."""
        given = self.body()
        text = self.act(
            _from_server,
            workspace_id,
            name,
            lambda server: server.get_prompt(given["prompt"], given["arguments"]),
        )
        return Response({"text": text})


class McpServerResource(Resource):
    """The content of a resource that a server offers."""

    rights: ClassVar = {"post": Right.PROMPT}
    folder_methods: ClassVar = frozenset({"post"})
    serializer_class = McpResourceRequestSerializer

    @extend_schema(responses={200: McpContentsSerializer})
    def post(self, _: Request, workspace_id: str, name: str) -> Response:
        """Returns the content of the resource."""
        uri = self.body()["uri"]
        contents = self.act(
            _from_server, workspace_id, name, lambda server: server.read_resource(uri)
        )
        names = ("uri", "mime_type", "text", "blob")
        return Response(
            {"contents": [{field: getattr(part, field) for field in names} for part in contents]}
        )


class McpServerLogin(Resource):
    """The login to a server, through the person's browser."""

    rights: ClassVar = {"post": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"post"})

    @extend_schema(request=None, responses={202: McpLoginSerializer})
    def post(self, _: Request, workspace_id: str, name: str) -> Response:
        """Begins a login and returns the address for the browser. Events report its end."""
        return Response({"auth_url": self.act(_begin_login, workspace_id, name)}, status=202)


def shown_servers(view: Resource, workspace_id: str) -> list[dict[str, Any]]:
    rows = McpServer.objects.filter(workspace_id=workspace_id)
    shown = {row.name: _state(row) for row in rows}
    for name, server in view.act(configs().config_of, workspace_id).settings.mcp.items():
        state = McpStatus.DISABLED if server.is_disabled else McpStatus.STARTING
        shown.setdefault(name, _state(McpServer(name=name, state=state.value)))
    return [shown[name] for name in sorted(shown)]


def _state(row: McpServer) -> dict[str, Any]:
    return {
        "name": row.name,
        "state": str(row.state),
        "error": row.error,
        "tool_count": row.tool_count,
        "prompt_count": row.prompt_count,
        "resource_count": row.resource_count,
        "connected_at": None if row.connected_at is None else as_seconds(row.connected_at),
    }


def _offer(offer: Offer) -> dict[str, Any]:
    return {
        "tools": [
            {"name": tool.name, "description": tool.description, "schema": dict(tool.schema)}
            for tool in offer.tools
        ],
        "prompts": [
            {
                "name": prompt.name,
                "title": prompt.title,
                "description": prompt.description,
                "arguments": [
                    {
                        "name": argument.name,
                        "title": argument.title,
                        "description": argument.description,
                        "required": argument.required,
                    }
                    for argument in prompt.arguments
                ],
            }
            for prompt in offer.prompts
        ],
        "resources": [
            {
                "uri": resource.uri,
                "name": resource.name,
                "description": resource.description,
                "mime_type": resource.mime_type,
            }
            for resource in offer.resources
        ],
    }


async def _offer_of(workspace_id: str, name: str) -> Offer:
    try:
        return (await server_named(workspace_id, name)).offer
    except McpServerUnknown:  # configured, and not started yet
        return Offer()


async def _from_server(workspace_id: str, name: str, request: Any) -> Any:
    server = await server_named(workspace_id, name)
    try:
        return await request(server)
    except McpFailed as failure:
        raise McpServerFailed(f"mcp server {server.name}: {failure}") from None


async def _begin_login(workspace_id: str, name: str) -> str:
    """Returns the address as soon as it is known. The login goes on in a task of its own."""
    server = await server_named(workspace_id, name)
    task = asyncio.create_task(_log_in(server))
    _logins.add(task)
    task.add_done_callback(_log_end)
    ends_at = asyncio.get_running_loop().time() + LOGIN_WAIT_SECONDS
    while not (server.view.auth_url or task.done()):
        if asyncio.get_running_loop().time() > ends_at:
            break
        await asyncio.wait({task}, timeout=_LOOK_SECONDS)
    if task.done():
        task.result()
    return server.view.auth_url


def _log_end(task: asyncio.Task[None]) -> None:
    _logins.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.info("a login failed: %s", error)


async def _log_in(server: McpServerClient) -> None:
    try:
        await server.log_in()
    except McpFailed as failure:
        raise McpServerFailed(f"mcp server {server.name}: {failure}") from None
