"""Sends a prompt and prints the words of the reply: ``python prompt.py FOLDER TEXT``."""

import asyncio
import os
import sys

from crushclient import Client, LogEvent, NewText


def client() -> Client:
    url = os.environ.get("CRUSH_URL")
    return Client(url, token=os.environ.get("CRUSH_TOKEN", "")) if url else Client.local()


async def main(folder: str, text: str) -> int:
    async with client() as crush:
        workspace = await crush.open_workspace(os.path.abspath(folder))
        created = await crush.api.sessions.create(workspace.id, title="")
        async with crush.follow(
            workspace.id, created["id"], client_id=workspace.client_id, path=workspace.path
        ) as session:
            run_id = await session.prompt(text)
            async for item in session:
                if isinstance(item, NewText) and item.kind == "text":
                    print(item.text, end="", flush=True)
                elif isinstance(item, LogEvent) and item.type == "run.finished":
                    run = session.state.run_of(run_id)
                    if run is not None and run["state"] == "finished":
                        print()
                        return 0 if run["outcome"] == "completed" else 1
    return 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
