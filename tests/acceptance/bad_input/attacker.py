"""Sends what is wrong, and holds the server to its answer."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from yarl import URL

from tests.acceptance.conversation import Seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server
from tests.acceptance.watching import LogWatch, stored

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


class Attacker:
    """Sends what is wrong, and holds the server to its answer."""

    def __init__(self, server: Server, seat: Seat, session: str) -> None:
        self.server = server
        self.seat = seat
        self.session = session
        self.url = f"/v1/workspaces/{seat.workspace.id}"
        self.log = LogWatch(server)
        self.before: Any = None

    async def begin(self) -> "Attacker":
        self.before = await stored(self.server, self.seat.workspace)
        return self

    async def refused(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        naming: str = "",
        status: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> str:
        """The message of the refusal."""
        places = {"ws": self.url, "sid": self.session, "wid": self.seat.workspace.id}
        for name, place in places.items():
            path = path.replace(f"{{{name}}}", place)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.seat.workspace.client.http.session.request(
            method,
            URL(self.server.url + path, encoded=True),
            data=None if body is None else io.BytesIO(data),
            headers=headers,
        ) as answer:
            text = await answer.text()
        what = f"{method} {path} {data[:200]!r}: {answer.status} {text[:500]}"
        assert 400 <= answer.status < 500, what
        assert status in (None, answer.status), what
        if method != "HEAD":
            assert "json" in answer.content_type, what
            refusal = json.loads(text)
            message = str(refusal.get("message") or refusal["detail"])  # native: problem details
            assert message, what
            assert naming in message, what
            assert "Traceback" not in message, what
            assert 'File "' not in message, what
            return message
        return ""

    async def nothing_happened(self) -> None:
        """And the server still works."""
        assert await stored(self.server, self.seat.workspace) == self.before
        assert self.log.loud() == []
        await self.seat.workspace.client.http.call("GET", "/v1/health")
