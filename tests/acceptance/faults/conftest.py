"""Scaled servers whose way to PostgreSQL or Redis leads through a proxy that can fail."""

from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.doubles.tcp_proxy import TcpProxy


class Detour:
    """Leads the processes whose names begin with one of `names` through `proxy`."""

    def __init__(self, variable: str, names: tuple[str, ...]) -> None:
        self._variable = variable
        self._names = names
        self._proxy: TcpProxy | None = None

    @property
    def proxy(self) -> TcpProxy:
        assert self._proxy is not None, "no process was made yet"
        return self._proxy

    def __call__(self, name: str, env: Mapping[str, str]) -> Mapping[str, str]:
        if not name.startswith(self._names):
            return {}
        parts = urlsplit(env[self._variable])
        assert parts.hostname is not None
        assert parts.port is not None
        if self._proxy is None:
            self._proxy = TcpProxy(parts.hostname, parts.port)
        user = f"{parts.username}@" if parts.username else ""
        address = parts._replace(netloc=f"{user}127.0.0.1:{self._proxy.port}")
        return {self._variable: urlunsplit(address)}

    def close(self) -> None:
        if self._proxy is not None:
            self._proxy.close()


NewDetour = Callable[..., Detour]


# Automatically, so that it is set up before and closed after the servers: they stop through it.
@pytest.fixture(autouse=True)
def detour() -> Iterator[NewDetour]:
    """`detour("DATABASE_URL", "web", "worker")`: give it to `make_a_server(reroute=…)`."""
    made: list[Detour] = []

    def make(variable: str, *names: str) -> Detour:
        made.append(Detour(variable, names))
        return made[-1]

    yield make
    for each in made:
        each.close()
