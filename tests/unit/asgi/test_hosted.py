"""A stock server that listens where others reach it starts nothing and answers nobody."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from crushsite.asgi.hosted import NOT_LOCAL, HostedServer, _is_local


@pytest.mark.parametrize(
    ("server", "local"),
    [
        (("127.0.0.1", 8000), True),
        (("127.9.9.9", 1), True),
        (("::1", 8000), True),
        (("localhost", 8000), True),
        (("/run/user/1/crush.sock", None), True),
        (None, True),
        (("192.168.1.5", 8000), False),
        (("0.0.0.0", 8000), False),
        (("::", 8000), False),
        (("fe80::1%eth0", 8000), False),
        (("example.com", 80), False),
    ],
)
def test_only_loopback_addresses_and_socket_files_are_local(server: Any, local: bool) -> None:
    assert _is_local({"type": "http", "server": server}) is local


@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_it_refuses_what_came_in_by_another_address(kind: str) -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": f"{kind}.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await HostedServer()({"type": kind, "server": ("10.0.0.7", 80)}, receive, send)
    if kind == "http":
        assert sent[0]["status"] == 403
        assert orjson.loads(sent[1]["body"]) == {"message": NOT_LOCAL}
    else:
        assert sent == [{"type": "websocket.close", "code": 1008}]
