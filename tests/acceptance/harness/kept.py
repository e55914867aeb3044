"""Servers that many tests share, one for each shape."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.acceptance.harness.services import Services
from tests.acceptance.harness.shapes import Server, Shape, make_server


class KeptServers:
    """Each is started when first asked for, and kept until all are closed."""

    def __init__(
        self, folder: Path, lend: Callable[[], Services], *, env: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._lend = lend
        self._env = env
        self._kept: dict[Shape, Server] = {}

    def __call__(self, shape: Shape) -> Server:
        if shape not in self._kept:
            server = make_server(
                shape,
                self._folder / str(shape),
                env=self._env,
                services=self._lend() if shape is Shape.SCALED else None,
            )
            server.start()
            self._kept[shape] = server
        return self._kept[shape]

    def close(self) -> None:
        for server in self._kept.values():
            server.close()
