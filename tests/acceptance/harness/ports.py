"""Free ports on the loopback interface."""

import secrets
import socket

# Below the range from which the kernel takes ports for outgoing connections: a server that is
# killed and started again finds its port still free.
_FIRST, _LAST = 20_000, 32_000


def free_port() -> int:
    """A port that nobody listens on. Random, so that parallel test processes do not meet."""
    for _ in range(200):
        # Not `random`: pytest-randomly seeds it alike in every worker.
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port on 127.0.0.1")
