"""Each name that `crushsite/server` uses of a library's inside is still there.

When an upgrade breaks one of these tests, read what the library does instead, and change the module
that the sentence names. `crushsite/server/README.md` lists the same names.
"""

import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from autobahn.websocket.protocol import WebSocketProtocol as AutobahnProtocol
from autobahn.websocket.protocol import WebSocketServerProtocol as AutobahnServer
from daphne import http_protocol, ws_protocol
from daphne.http_protocol import WebRequest
from daphne.ws_protocol import WebSocketProtocol
from twisted.protocols.basic import LineReceiver
from twisted.web.http import HTTPChannel, Request
from txaio import tx

from crushsite.server.asgi_server import AsgiServer
from crushsite.server.http import Channel
from crushsite.server.http import HttpRequest as OurRequest
from crushsite.server.transport import Transport
from crushsite.server.websocket import Socket, SocketFactory
from tests.house import measures

ROOT = Path(__file__).parents[3]
README = ROOT / "crushsite" / "server" / "README.md"


@dataclass(frozen=True)
class Name:
    owner: Any
    name: str
    user: str  # the module of crushsite/server

    @property
    def is_there(self) -> bool:
        """As an attribute of the class or module, or as one that its methods give to `self`."""
        if hasattr(self.owner, self.name):
            return True
        given = re.compile(rf"\bself\.{self.name}\b")
        return any(given.search(inspect.getsource(base)) for base in _bases(self.owner))


def _bases(owner: Any) -> list[Any]:
    return [base for base in inspect.getmro(owner) if base is not object]


NAMES = [
    Name(HTTPChannel, "_receivedHeaderSize", "http.py"),
    Name(HTTPChannel, "_receivedHeaderCount", "http.py"),
    Name(HTTPChannel, "_handlingRequest", "http.py"),
    Name(HTTPChannel, "allContentReceived", "http.py"),
    Name(HTTPChannel, "_respondToBadRequestAndDisconnect", "http.py"),
    Name(HTTPChannel, "totalHeadersSize", "http.py"),
    Name(HTTPChannel, "maxHeaders", "http.py"),
    Name(HTTPChannel, "isSecure", "http.py"),
    Name(HTTPChannel, "persistent", "http.py"),
    Name(HTTPChannel, "requests", "http.py"),
    Name(HTTPChannel, "timeOut", "http.py"),
    Name(LineReceiver, "lineLengthExceeded", "http.py"),
    Name(Request, "gotLength", "http.py"),
    Name(Request, "handleContentChunk", "http.py"),
    Name(Request, "startedWriting", "http.py"),
    Name(Request, "chunked", "http.py"),
    Name(WebRequest, "_response_started", "http.py"),
    Name(WebRequest, "application_queue", "http.py"),
    Name(WebRequest, "basic_error", "http.py"),
    Name(WebRequest, "handle_reply", "http.py"),
    Name(WebRequest, "send_disconnect", "http.py"),
    Name(http_protocol, "HEADER_NAME_RE", "http.py"),
    Name(WebSocketProtocol, "handle_reply", "websocket.py"),
    Name(WebSocketProtocol, "handshake_deferred", "websocket.py"),
    Name(WebSocketProtocol, "serverSend", "websocket.py"),
    Name(WebSocketProtocol, "serverClose", "websocket.py"),
    Name(WebSocketProtocol, "serverReject", "websocket.py"),
    Name(WebSocketProtocol, "check_timeouts", "websocket.py"),
    Name(WebSocketProtocol, "duration", "websocket.py"),
    Name(AutobahnProtocol, "sendCloseFrame", "websocket.py"),
    Name(AutobahnProtocol, "sendData", "websocket.py"),
    Name(AutobahnProtocol, "onAutoPingTimeout", "websocket.py"),
    Name(AutobahnProtocol, "autoPingTimeoutCall", "websocket.py"),
    Name(AutobahnProtocol, "onCloseHandshakeTimeout", "websocket.py"),
    Name(AutobahnProtocol, "closeHandshakeTimeout", "websocket.py"),
    Name(AutobahnProtocol, "closeHandshakeTimeoutCall", "websocket.py"),
    Name(AutobahnProtocol, "state", "websocket.py"),
    Name(AutobahnProtocol, "STATE_CLOSED", "websocket.py"),
    Name(AutobahnProtocol, "STATE_CONNECTING", "websocket.py"),
    Name(AutobahnProtocol, "STATE_OPEN", "websocket.py"),
    Name(AutobahnServer, "sendHttpErrorResponse", "websocket.py"),
    Name(tx, "config", "transport.py"),
]


# Documented as meant to be set or overridden.
DOCUMENTED = {"noisy", "onClose", "protocol", "requestFactory"}
# Of a server that `AsgiServer.start` makes, or that code reads which we override or switch off.
UNUSED = {
    "proxy_forwarded_port_header",
    "proxy_forwarded_proto_header",
    "server_name",
    "ws_factory",
}


@pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{name.owner.__name__}.{name.name}")
def test_the_library_still_has_it(name: Name) -> None:
    assert name.is_there, (
        f"{name.owner.__module__ if inspect.isclass(name.owner) else name.owner.__name__} has no"
        f" {name.name!r} any more: crushsite/server/{name.user} uses it and must be changed."
    )


def test_twisteds_reactor_is_not_needed() -> None:
    assert tx.config.loop is not None, (
        "txaio has no clock: crushsite/server/transport.py must set it, else autobahn installs"
        " a reactor of Twisted."
    )


def test_no_other_private_name_is_used() -> None:
    modules = measures.read_modules(ROOT, ["crushsite"])
    server = [m for m in modules if m.path.is_relative_to("crushsite/server")]
    found = measures.foreign_private_names(server, own_packages=["crushsite", "workspaces"])
    accessed = {each.name.rpartition(".")[2] for each in found}
    overridden = {
        name
        for ours in (Channel, OurRequest, Socket, SocketFactory, Transport)
        for name in vars(ours)
        if not name.startswith(("__", "_abc"))
        for base in _bases(ours)[1:]
        if name in vars(base) and _is_of_a_library(base)
    }
    assert accessed | overridden <= {each.name for each in NAMES} | DOCUMENTED


def _is_of_a_library(base: Any) -> bool:
    return str(base.__module__).partition(".")[0] in {"autobahn", "daphne", "twisted"}


def test_a_server_has_all_that_daphnes_protocols_read_of_it() -> None:
    read = re.compile(r"\bself\.server\.(\w+)")
    sources = inspect.getsource(http_protocol) + inspect.getsource(ws_protocol)
    server = AsgiServer(_application, endpoint="tcp://127.0.0.1:0")
    missing = {name for name in read.findall(sources) if not hasattr(server, name)} - UNUSED
    assert not missing, (
        f"Daphne's protocols read {', '.join(sorted(missing))} of their server:"
        " crushsite/server/asgi_server.py must have it."
    )


async def _application(_scope: Any, _receive: Any, _send: Any) -> None:
    """Is never called."""


def test_the_readme_lists_each_of_them() -> None:
    listed = set(re.findall(r"^\| `(\w+)` \|", README.read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == {each.name for each in NAMES}
