"""Free ports on the loopback interface."""

import os
import secrets
import socket

# Below the range from which the kernel takes ports for outgoing connections: a server that is
# killed and started again finds its port still free.
_FIRST, _LAST = 20_000, 32_000
# Each of pytest's workers has ports of its own: one is free from its probe until it is bound.
_SHARES = 16
_given: set[int] = set()  # a server that was killed comes back to its port


def free_port() -> int:
    """A port that nobody listens on, and that this process was not given before."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _SHARES
    share = (_LAST - _FIRST) // _SHARES
    for _ in range(2_000):
        # Not `random`: pytest-randomly seeds it alike in every worker.
        port = _FIRST + worker * share + secrets.randbelow(share)
        if port in _given:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise RuntimeError("no free port on 127.0.0.1")
