"""This project's MCP client, as `@modelcontextprotocol/conformance` drives a client.

    python -m tests.conformance.mcp_client http://localhost:PORT/mcp

The tool names its scenario in `MCP_CONFORMANCE_SCENARIO` and what a scenario gives to a client in
`MCP_CONFORMANCE_CONTEXT`. Everything that speaks the protocol is the product's own code; this program
is what stands around it: the configuration, the model that calls tools, and the person who logs in.
"""

import asyncio
import json
import os
import sys
import tempfile
from contextlib import suppress
from typing import Any

from agents.config.settings import McpSettings
from agents.tools.mcp.contract import McpFailed, McpStatus
from agents.tools.mcp.host import McpHost
from agents.tools.mcp.server import McpServerClient
from tests.doubles.mcp_backing import MemoryBacking
from tests.doubles.mcp_person import Person

# The scenario of client id metadata documents expects this one.
METADATA_DOCUMENT = "https://conformance-test.local/client-metadata.json"
ROUNDS = 2  # logins for one call


async def use(server: McpServerClient, person: Person, calls: list[dict[str, Any]]) -> None:
    """Calls every tool, reads every resource and prompt, and logs in where that is asked for."""
    if server.view.state is McpStatus.NEEDS_AUTH:
        await person.log_in()
    offer = server.offer
    for call in calls or [
        {"name": tool.name, "arguments": invented(tool.schema)} for tool in offer.tools
    ]:
        await persevering(server, person, call["name"], call["arguments"])
    for prompt in offer.prompts:
        given = {argument.name: "text" for argument in prompt.arguments}
        await server.get_prompt(prompt.name, given)
    for resource in offer.resources:
        await server.read_resource(resource.uri)


async def persevering(
    server: McpServerClient, person: Person, name: str, arguments: dict[str, Any]
) -> None:
    """The call, again after a login where the server asks for one. What fails is for the tool to judge."""
    for _ in range(ROUNDS):
        try:
            outcome = await server.call_tool(name, arguments, sees_images=True)
        except McpFailed as failure:
            if "log in" not in str(failure) and server.view.state is not McpStatus.NEEDS_AUTH:
                print(f"{name}: {failure}", file=sys.stderr)
                return
            await person.log_in()
        else:
            print(f"{name}: {outcome.content}")
            return


def invented(schema: Any) -> dict[str, Any]:
    """Arguments as a model might give them."""
    values = {"number": 5, "integer": 5, "boolean": True, "array": [], "object": {}}
    return {
        name: values.get(known.get("type"), "text")
        for name, known in schema.get("properties", {}).items()
        if isinstance(known, dict)
    }


def settings_for(url: str, scenario: str, context: dict[str, Any]) -> McpSettings:
    client_id = context.get("client_id", "") if scenario == "auth/pre-registration" else ""
    if scenario == "auth/basic-cimd":
        client_id = METADATA_DOCUMENT
    return McpSettings(
        "s",
        "http",
        url=url,
        timeout_seconds=15,
        oauth_client_id=client_id,
        oauth_client_secret=context.get("client_secret", "") if client_id else "",
    )


async def main() -> int:
    url = sys.argv[-1]
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    with tempfile.TemporaryDirectory() as folder:
        backing = MemoryBacking(folder, {"PATH": os.environ["PATH"], "HOME": folder})
        backing.add(settings_for(url, scenario, context))
        host = McpHost(backing)
        try:
            server = (await host.settled("w"))["s"]
            if server.view.state is McpStatus.ERROR:
                raise McpFailed(server.view.error)
            await use(server, Person(server, backing), context.get("toolCalls", []))
        except McpFailed as failure:
            print(f"{scenario}: {failure}", file=sys.stderr)
            return 1
        finally:
            with suppress(McpFailed):
                await host.stop()
    return 0


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    sys.exit(asyncio.run(main()))
