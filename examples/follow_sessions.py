"""Prints what all sessions of a workspace do: ``python follow_sessions.py FOLDER``."""

import asyncio
import os
import sys

from crushclient import Client, LogEvent, SessionState, StreamLost


def client() -> Client:
    url = os.environ.get("CRUSH_URL")
    return Client(url, token=os.environ.get("CRUSH_TOKEN", "")) if url else Client.local()


def line_of(state: SessionState) -> str:
    title = (state.session or {}).get("title") or "(no title)"
    waiting = f", {len(state.permissions)} to answer" if state.permissions else ""
    queued = f", {len(state.queue)} queued" if state.queue else ""
    last = list(state.messages.values())[-1].text.strip()[-60:] if state.messages else ""
    return f"{title}: {'busy' if state.is_busy else 'idle'}{queued}{waiting}  {last!r}"


async def main(folder: str) -> None:
    async with client() as crush:
        workspace = await crush.open_workspace(os.path.abspath(folder))
        snapshot = await crush.request("GET", f"/api/workspaces/{workspace.id}/snapshot")
        states = {
            session["id"]: SessionState(session["id"], snapshot) for session in snapshot["sessions"]
        }
        for state in states.values():
            print(line_of(state), flush=True)
        # One stream for all of them: the fold of a session is a pure function of its items.
        async with crush.stream(
            workspace.id,
            after=snapshot["number"],
            client_id=workspace.client_id,
            path=workspace.path,
        ) as stream:
            async for item in stream:
                if isinstance(item, StreamLost):
                    print(f"connection lost: {item.reason}", flush=True)
                if isinstance(item, LogEvent) and item.type == "session.created":
                    new = item.data["session"]["id"]
                    empty = {**snapshot, "number": item.number - 1, "messages": []}
                    states[new] = SessionState(new, empty)
                for state in states.values():
                    if state.apply(item) and isinstance(item, LogEvent):
                        print(line_of(state), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
