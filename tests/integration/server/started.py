"""Where a started server is found."""

from collections.abc import Awaitable, Callable

from crushsite.endpoints import TcpEndpoint
from crushsite.server.asgi_server import AsgiServer

Start = Callable[..., Awaitable[AsgiServer]]
MEGABYTE = 1024 * 1024


def port_of(server: AsgiServer) -> int:
    assert isinstance(server.endpoint, TcpEndpoint)
    return server.endpoint.port


def url_of(server: AsgiServer, path: str = "/size") -> str:
    return f"http://127.0.0.1:{port_of(server)}{path}"
