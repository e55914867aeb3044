"""Where a server is and how a client connects to it: addresses, TLS, the local server's file."""

from __future__ import annotations

import ipaddress
import json
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from crushclient.errors import ConnectionFailed, UnsafeAddress

SOCKET_HOST = "api.crush.localhost"  # the Host that a server on a socket file accepts
SERVER_FILE = "server.json"
_UNIX = "unix://"


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """``verify=False`` accepts any certificate: only for a server whose address is trusted."""

    ca_file: str | None = None
    certificate_file: str | None = None  # of the client, for a proxy that requires one
    key_file: str | None = None
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_file)
        if not self.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if self.certificate_file is not None:
            context.load_cert_chain(self.certificate_file, self.key_file)
        return context


@dataclass(frozen=True, slots=True)
class Address:
    """``base`` is the URL of requests; ``socket_path`` is set for a socket file."""

    base: str
    socket_path: str | None = None

    @property
    def is_encrypted(self) -> bool:
        return self.base.startswith("https://")

    @property
    def is_local(self) -> bool:
        """Whether the connection stays on this machine."""
        if self.socket_path is not None:
            return True
        host = urlsplit(self.base).hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False


def parse_address(url: str) -> Address:
    """Parses ``http://``, ``https://`` or ``unix://PATH``. Raises ``UnsafeAddress``."""
    if url.startswith(_UNIX):
        path = url.removeprefix(_UNIX)
        if not path.startswith("/"):
            raise UnsafeAddress(f"{url}: a socket file needs an absolute path: unix:///PATH")
        return Address(f"http://{SOCKET_HOST}", path)
    try:
        parts = urlsplit(url)
        port = parts.port  # raises if it is no number
    except ValueError:
        raise UnsafeAddress(f"{url}: is no address") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise UnsafeAddress(f"{url}: must begin with http://, https:// or unix://")
    if parts.username or parts.password:
        raise UnsafeAddress("the address must not have a user or a password: use a token")
    if parts.query or parts.fragment:
        raise UnsafeAddress(f"{url}: must end with the path")
    return Address(f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}")


def data_folder() -> Path:
    """The data folder of the server of this user: ``CRUSH_DATA_DIR``, or the default."""
    if chosen := os.environ.get("CRUSH_DATA_DIR", "").strip():
        return Path(chosen).expanduser().absolute()
    home = os.environ.get("XDG_DATA_HOME", "").strip() or str(Path.home() / ".local" / "share")
    return Path(home) / "crush-server"


def local_address(folder: Path | None = None) -> str:
    """Returns the address of the server that runs on the folder. Raises ``ConnectionFailed``.

    A killed server leaves its file: whether it still runs shows only with a request.
    """
    path = (folder or data_folder()) / SERVER_FILE
    try:
        url = json.loads(path.read_bytes())["url"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ConnectionFailed(
            f"no server runs on {path.parent}: start one with `crush-server serve`"
        ) from None
    return str(url)
