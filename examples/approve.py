"""Allows permission requests of tools that only read, and denies others: ``python approve.py FOLDER``."""

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any

from crushclient import Client, LogEvent

ALLOWED = {"ls", "view", "grep", "glob"}


def client() -> Client:
    url = os.environ.get("CRUSH_URL")
    return Client(url, token=os.environ.get("CRUSH_TOKEN", "")) if url else Client.local()


async def main(folder: str) -> None:
    async with client() as crush:
        workspace = await crush.open_workspace(os.path.abspath(folder))
        snapshot = await crush.request("GET", f"/api/workspaces/{workspace.id}/snapshot")
        async with crush.stream(
            workspace.id,
            after=snapshot["number"],
            client_id=workspace.client_id,
            path=workspace.path,
        ) as stream:

            async def decide(request: Mapping[str, Any]) -> None:
                answer = "allow" if request["tool_name"] in ALLOWED else "deny"
                was_first = await stream.answer(request["id"], answer)
                outcome = answer if was_first else "answered by another client"
                print(f"{request['tool_name']}: {request['description']}: {outcome}", flush=True)

            for request in snapshot["permissions"]:
                await decide(request)
            async for item in stream:
                if isinstance(item, LogEvent) and item.type == "permission.requested":
                    await decide(item.data["request"])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
