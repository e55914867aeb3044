"""Prints a session as Markdown: ``python export.py FOLDER SESSION``."""

import asyncio
import os
import sys

from crushclient import Client


def client() -> Client:
    url = os.environ.get("CRUSH_URL")
    return Client(url, token=os.environ.get("CRUSH_TOKEN", "")) if url else Client.local()


async def main(folder: str, session_id: str) -> None:
    async with client() as crush:
        workspace = await crush.open_workspace(os.path.abspath(folder))
        async with crush.follow(workspace.id, session_id) as session:
            print(f"# {(session.session or {}).get('title') or session_id}\n")
            for message in session.messages:
                if message.text.strip():
                    print(f"## {message.role}\n\n{message.text.strip()}\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
