"""A real MCP server made with the protocol's own package: on stdio, streamable HTTP or SSE.

`python mcp_server.py` speaks on stdio; `--http PORT` and `--sse PORT` listen on loopback and say so.
Its tools do what tests need: crash, hang, count, change the list of tools.
"""

import argparse
import asyncio
import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from mcp import types
from mcp.server.fastmcp import Context, FastMCP, Image

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def note(line: str) -> None:
    """For tests, in the file that the environment names: what only the server can know."""
    path = os.environ.get("MCP_NOTES")
    if path:
        with Path(path).open("a") as file:
            file.write(line + "\n")


def make(host: str = "127.0.0.1", port: int = 0, **options: Any) -> FastMCP:
    server = FastMCP("double", host=host, port=port, log_level="ERROR", **options)

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
        raise ValueError(why)

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

    @server.tool()
    async def learn(tool: str, context: Context) -> str:
        """Adds a tool, and says so."""

        def fresh() -> str:
            return "fresh"

        server.add_tool(fresh, name=tool, description="A tool that was not there.")
        await context.session.send_tool_list_changed()
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

    # FastMCP announces no changes of its lists by itself.
    low = server._mcp_server
    create = low.create_initialization_options

    def announcing(*_args: Any, **_options: Any) -> Any:
        from mcp.server.lowlevel import NotificationOptions

        return create(
            NotificationOptions(tools_changed=True, prompts_changed=True, resources_changed=True)
        )

    low.create_initialization_options = announcing
    return server


def main() -> None:
    parser = argparse.ArgumentParser(description="An MCP server for tests.")
    parser.add_argument("--http", type=int)
    parser.add_argument("--sse", type=int)
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
    port = options.http if options.http is not None else options.sse
    server = make(port=port or 0)
    if options.http is not None:
        server.run("streamable-http")
    elif options.sse is not None:
        server.run("sse")
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
