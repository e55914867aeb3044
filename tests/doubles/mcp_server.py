"""A real MCP server made with the protocol's own package: on stdio, streamable HTTP or SSE.

`python mcp_server.py` speaks on stdio; `--http PORT` and `--sse PORT` listen on loopback and say so.
It speaks the protocol of 2026 with whoever asks for it; with `--handshake` only that of 2025.
Its tools do what tests need: crash, hang, count, change the list of tools, and with `--more` ask back.
"""

import argparse
import asyncio
import base64
import itertools
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import NotificationOptions
from mcp.server.mcpserver import Context, Elicit, Image, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from pydantic import BaseModel

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def note(line: str) -> None:
    """For tests, in the file that the environment names: what only the server can know."""
    path = os.environ.get("MCP_NOTES")
    if path:
        with Path(path).open("a") as file:
            file.write(line + "\n")


class Colour(BaseModel):
    colour: str


async def ask_colour() -> Elicit[Colour]:
    return Elicit("Which colour?", Colour)


def make(**options: Any) -> MCPServer:
    server = MCPServer("double", log_level="ERROR", **options)

    @server.tool()
    def add(first: int, second: int) -> str:
        """Adds two numbers."""
        return str(first + second)

    @server.tool(name="odd name/é")
    def odd() -> str:
        """Has a name that no provider takes."""
        return "odd"

    @server.tool()
    def picture() -> Image:
        """Returns a picture."""
        return Image(data=PIXEL, format="png")

    @server.tool(structured_output=False)
    def parts() -> list[Any]:
        """Returns parts of every kind."""
        link = types.ResourceLink(type="resource_link", uri="note://one", name="one")
        inner = types.TextResourceContents(uri="note://two", text="embedded text")
        return [
            types.TextContent(type="text", text="first"),
            types.EmbeddedResource(type="resource", resource=inner),
            link,
        ]

    @server.tool()
    def fail(why: str) -> str:
        """Always fails."""
        raise ToolError(why)

    _add_processes(server)
    _add_lists(server)
    return server


def _add_processes(server: MCPServer) -> None:
    """Adds tools that wait, end or start a process, or depend on it."""

    @server.tool()
    async def wait(seconds: float) -> str:
        """Waits, and notes when it is cancelled."""
        note("waiting")
        try:
            await asyncio.sleep(seconds)
        except BaseException:
            note("cancelled")
            raise
        return "waited"

    @server.tool()
    def crash() -> str:
        """Ends the process in the middle of the call."""
        print("about to crash with s3cret-stderr-value", file=sys.stderr, flush=True)
        os._exit(7)

    @server.tool()
    def large(size: int) -> str:
        """Returns a long text."""
        return "x" * size

    @server.tool()
    def environment(variable: str) -> str:
        """Tells a variable of its environment."""
        return os.environ.get(variable, "(unset)")

    @server.tool()
    def spawn() -> str:
        """Leaves a process of its own behind, out of its group."""
        child = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
        )
        return json.dumps({"pid": os.getpid(), "child": child.pid})


def _add_lists(server: MCPServer) -> None:
    """Adds the prompts, the resources and a tool that changes a list."""

    @server.tool()
    async def learn(tool: str, context: Context) -> str:
        """Adds a tool, and says so."""

        def fresh() -> str:
            return "fresh"

        server.add_tool(fresh, name=tool, description="A tool that was not there.")
        await context.session.send_tool_list_changed()  # heard in 2025
        await context.notify_tools_changed()  # heard in 2026
        return "learned"

    @server.prompt(title="Greeting")
    def greet(name: str, mood: str = "happy") -> str:
        """Greets somebody."""
        return f"Say hello to {name}, being {mood}."

    @server.resource("note://one", title="One", mime_type="text/plain")
    def one() -> str:
        """The first note."""
        return "the first note"

    @server.resource("note://bytes", mime_type="application/octet-stream")
    def raw() -> bytes:
        return b"\x00\x01\x02"

    # The package announces no changes of its lists by itself in 2025.
    low = server._lowlevel_server
    create = low.create_initialization_options

    def announcing(*_args: Any, **_options: Any) -> Any:
        return create(
            NotificationOptions(tools_changed=True, prompts_changed=True, resources_changed=True)
        )

    low.create_initialization_options = announcing


def add_more(server: MCPServer) -> None:
    @server.tool()
    def revision(context: Context) -> str:
        """Tells the revision of the protocol that it is called by."""
        return str(context.protocol_version)

    @server.tool()
    async def slowly(context: Context) -> str:
        """Reports how far it is."""
        for step in range(3):
            await context.report_progress(step, 3, f"step {step}")
        return "at last"

    @server.tool()
    def paint(colour: Annotated[Colour, Resolve(ask_colour)]) -> str:
        """Asks a person for a colour."""
        return f"painted {colour.colour}"


def add_repeatable(server: MCPServer) -> None:
    """Adds tools that hang in their first run, and end in a second one."""

    async def run(context: Context) -> str:
        path = Path(os.environ["MCP_NOTES"])
        key = (context.request_context.meta or {}).get("crush-server/call-key")
        is_first = "key " not in path.read_text()
        note(f"key {key}")
        if is_first:
            await asyncio.sleep(600)
        return "done"

    server.tool(name="sure", annotations=types.ToolAnnotations(idempotent_hint=True))(run)
    server.tool(name="unsure")(run)


def add_counting(server: MCPServer) -> None:
    """Adds a tool and a resource that count together: their state is that of this process."""
    numbers = itertools.count(1)

    def count() -> str:
        """Returns the next number, after the process."""
        return f"{os.getpid()} {next(numbers)}"

    server.tool(name="count")(count)
    server.resource("note://count", mime_type="text/plain")(count)


async def run_handshake_only(server: MCPServer) -> None:
    """On stdio, as the package's servers did in 2025."""
    low = server._lowlevel_server
    async with stdio_server() as (read, write), low.lifespan(low) as state:
        options = low.create_initialization_options()
        await serve_loop(low, read, write, lifespan_state=state, init_options=options)


class HandshakeOnly:
    """ASGI: requests of 2026 look to the package like any without a session."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = [pair for pair in scope["headers"] if pair[1] != b"2026-07-28"]
            scope = {**scope, "headers": headers}
        await self._app(scope, receive, send)


async def serve_http(server: MCPServer, port: int, *, handshake_only: bool) -> None:
    app = server.streamable_http_app()
    wrapped = HandshakeOnly(app) if handshake_only else app
    await uvicorn.Server(uvicorn.Config(wrapped, port=port, log_level="error")).serve()


def main() -> None:
    parser = argparse.ArgumentParser(description="An MCP server for tests.")
    parser.add_argument("--http", type=int)
    parser.add_argument("--sse", type=int)
    parser.add_argument("--handshake", action="store_true", help="speaks no newer protocol")
    parser.add_argument("--more", action="store_true", help="has tools about the protocol too")
    parser.add_argument("--repeatable", action="store_true", help="has tools that hang once")
    parser.add_argument("--counting", action="store_true", help="has a tool with a state")
    parser.add_argument("--greeting", default="", help="printed to stdout before anything else")
    parser.add_argument("--die", default="", help="printed to stderr; then it ends with 3")
    parser.add_argument("--hang", action="store_true", help="answers nothing")
    options = parser.parse_args()
    note(f"started {os.getpid()}")
    if options.die:
        print(options.die, file=sys.stderr, flush=True)
        sys.exit(3)
    if options.hang:
        print("thinking about it", file=sys.stderr, flush=True)
        time.sleep(600)
    if options.greeting:
        print(options.greeting, flush=True)
    server = make()
    if options.more:
        add_more(server)
    if options.counting:
        add_counting(server)
    if options.repeatable:
        add_repeatable(server)
    if options.http is not None:
        anyio.run(partial(serve_http, server, options.http, handshake_only=options.handshake))
    elif options.sse is not None:
        server.run("sse", port=options.sse)
    elif options.handshake:
        anyio.run(run_handshake_only, server)
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
