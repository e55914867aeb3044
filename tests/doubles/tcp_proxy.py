"""A TCP proxy that fails in the ways in which networks and hosts fail.

Connections run through threads, so a test may block its event loop. Knows one thing of
PostgreSQL's protocol: how a COMMIT looks on its way to the server.
"""

import contextlib
import enum
import socket
import threading
import time

_COMMIT = b"COMMIT\x00"


class Mode(enum.Enum):
    PASS = "pass"
    SILENT = "silent"  # connections stay open, nothing goes through
    REFUSE = "refuse"  # connections break, new ones are closed at once


class Cut(enum.Enum):
    """Where a COMMIT's connection breaks."""

    ANSWER = "answer"  # the server has carried it out, its answer is lost
    REQUEST = "request"  # it never reaches the server, which sees the connection end
    HANG = "hang"  # it never reaches the server, which sees nothing: the transaction stays open


class TcpProxy:
    """Listens on a free loopback port and forwards to `host:port`, or as a balancer does: to the
    first of several ports of the host that takes the connection."""

    def __init__(self, host: str, *ports: int) -> None:
        self._host = host
        self._ports = ports
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._passing = threading.Event()
        self._passing.set()
        self._is_refusing = False
        self._commits_to_cut = 0
        self._cut = Cut.ANSWER
        self._refuses_after_cut = False
        self._bytes_to_cut: int | None = None
        self.delay_seconds = 0.0  # of all that passes, in both directions
        self.cut_commits = 0
        self.cut_answers = 0
        self.refused_connections = 0
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def set_mode(self, mode: Mode) -> None:
        self._is_refusing = mode is Mode.REFUSE
        if mode is Mode.SILENT:
            self._passing.clear()
        else:
            self._passing.set()
        if mode is Mode.REFUSE:
            self._close_links()

    def strand_links(self) -> None:
        """The connections of now stay open and carry nothing any more; new ones pass."""
        with self._lock:
            for link in self._links:
                link.is_stranded = True

    def lead_to(self, port: int) -> None:
        """From now on to another server of the same host, as if the first had been restarted."""
        self._ports = (port,)
        self._close_links()

    def cut_next_commits(
        self, count: int, cut: Cut = Cut.ANSWER, *, then_refuse: bool = False
    ) -> None:
        """``then_refuse``: from the first cut on no new connection is taken."""
        with self._lock:
            self._commits_to_cut = count
            self._cut = cut
            self._refuses_after_cut = then_refuse

    def cut_answers_after(self, count: int) -> None:
        """The connection that brings this many more bytes to the client breaks there."""
        with self._lock:
            self._bytes_to_cut = count

    @property
    def is_armed(self) -> bool:
        """Whether an answer will be cut."""
        with self._lock:
            return self._bytes_to_cut is not None

    def close(self) -> None:
        self.set_mode(Mode.REFUSE)
        # Without the shutdown the thread in `accept` would keep the socket alive.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _close_links(self) -> None:
        with self._lock:
            links = list(self._links)
        for link in links:
            link.close()

    # -- for the links

    def wait_until_passing(self) -> None:
        self._passing.wait()

    def next_cut(self) -> Cut | None:
        """For a COMMIT that has come; ``None``: it passes."""
        with self._lock:
            if not self._commits_to_cut:
                return None
            self._commits_to_cut -= 1
            self.cut_commits += 1
            self._is_refusing = self._is_refusing or self._refuses_after_cut
            return self._cut

    def bytes_before_cut(self, count: int) -> int:
        """How many of these bytes of an answer may pass; fewer mean that the connection breaks."""
        with self._lock:
            if self._bytes_to_cut is None or self._bytes_to_cut > count:
                if self._bytes_to_cut is not None:
                    self._bytes_to_cut -= count
                return count
            passing, self._bytes_to_cut = self._bytes_to_cut, None
            self.cut_answers += 1
            return passing

    def forget(self, link: "_Link") -> None:
        with self._lock:
            self._links.discard(link)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_refusing:
                client.close()
                self.refused_connections += 1
                continue
            server = self._connect()
            if server is None:
                client.close()
                continue
            server.settimeout(None)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = _Link(self, client, server)
            with self._lock:
                self._links.add(link)
            link.start()

    def _connect(self) -> socket.socket | None:
        for port in self._ports:
            with contextlib.suppress(OSError):
                return socket.create_connection((self._host, port), timeout=10)
        return None


class _Link:
    """One connection through the proxy."""

    def __init__(self, proxy: TcpProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._cut: Cut | None = None
        self.is_stranded = False

    def start(self) -> None:
        for there, back, is_request in (
            (self._client, self._server, True),
            (self._server, self._client, False),
        ):
            threading.Thread(
                target=self._pump, args=(there, back, is_request), name="proxy-link", daemon=True
            ).start()

    def _pump(self, there: socket.socket, back: socket.socket, is_request: bool) -> None:
        with contextlib.suppress(OSError):
            while data := there.recv(65_536):
                if self._proxy.delay_seconds:
                    time.sleep(self._proxy.delay_seconds)
                self._proxy.wait_until_passing()
                if self.is_stranded:
                    continue
                if is_request and _COMMIT in data:
                    self._cut = self._proxy.next_cut()
                    if self._cut in (Cut.REQUEST, Cut.HANG):
                        break
                elif not is_request and self._cut is Cut.ANSWER:
                    break  # this is the answer to the COMMIT
                passing = len(data) if is_request else self._proxy.bytes_before_cut(len(data))
                back.sendall(data[:passing])
                if passing < len(data):
                    break
        self.close(keeps_server=self._cut is Cut.HANG)

    def close(self, *, keeps_server: bool = False) -> None:
        ends = (self._client,) if keeps_server else (self._client, self._server)
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        if not keeps_server:
            self._proxy.forget(self)
