"""The ASGI application of a bridge: passes requests of a ``/v1`` client on to another server.

The event streams of ``/v1`` are those of ``event_stream``. Other responses are passed on whole, and
other streams as they come.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from multidict import CIMultiDict

from crushsite.asgi.guard import Receive, Scope, Send
from crushsite.asgi.identify import PEER
from crushsite.asgi.tool_processes import is_tool
from crushsite.bridge.event_stream import EventStreams
from crushsite.bridge.remote import Outgoing, OutOfReach, RemoteServer, field_of
from workspaces.client_ids import connection_of
from workspaces.error_answers import http_error
from workspaces.log.errors import WorkspaceUnknown

_EVENTS = re.compile(r"/v1/workspaces/([^/\0]{1,200})/events/?")
_WORKSPACE = re.compile(r"/v1/workspaces/([^/\0]{1,200})/?")
_BELOW = re.compile(r"/v1/workspaces/([^/\0]{1,200})/")
_CLIENT = re.compile(r"/v1/clients/([^/\0]{1,200})/?")
_PROMPT = re.compile(r"/v1/workspaces/[^/\0]{1,200}/agent/?")
# What interactive clients read many times a second while they draw: they must not wait for a network.
_POLLED = re.compile(r"/v1/workspaces/[^/\0]{1,200}/(agent|permissions/skip|permissions/mode)/?")
_STREAMS = re.compile(r"/api/workspaces/[^/\0]{1,200}/events/?")
FOR_NO_TOOL = "a tool of the server on this machine may not use the bridge"
MOST_POLLED = 1000
# They belong to one connection, not to the message (RFC 9110, 7.6.1).
HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"}
    | {"te", "trailer", "transfer-encoding", "upgrade"}
)
# The bridge has its own: the remote server would refuse these, or take them for a proxy's.
_REPLACED = frozenset({"host", "authorization", "content-length", "cookie", "expect"})
_WITHOUT_A_LOCAL_ORIGIN = frozenset({"origin", "referer", "forwarded", "via"})
_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})
NOT_OPEN = 404
BAD_GATEWAY = 502

Headers = Iterable[tuple[bytes, bytes]]


class Bridge:
    """Passes each request of its clients on to ``remote``."""

    def __init__(
        self,
        remote: RemoteServer,
        streams: EventStreams,
        *,
        servers: Callable[[], Collection[int]],
        folder: Path,
    ) -> None:
        """``servers``: the processes of the server of this machine, on the data folder ``folder``.

        Their tools may not use the bridge, also not those that have outlived their server.
        """
        self._servers = servers
        self._folder = folder
        self._remote = remote
        self._streams = streams
        # The newest answers, by client and target.
        self._polled: dict[tuple[str, str], tuple[int, Headers, bytes]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        if await self._is_from_tool(scope):
            for message in http_error(403, FOR_NO_TOOL):
                await send(message)
            return
        path, query = scope["path"], parse_qs(scope["query_string"].decode("latin-1"))
        client_id = _first(query, "client_id")
        if client_id:
            connection_of(scope).note(client_id)
        if scope["method"] == "GET" and (match := _EVENTS.fullmatch(path)) and client_id:
            await self._streams.respond((match[1], client_id), scope, receive, send)
            return
        body = await _whole_body(receive)
        if body is None:
            return  # the client has left
        outgoing = _outgoing(scope, body)
        if scope["method"] == "GET" and _STREAMS.fullmatch(path):
            await self._pass_stream(outgoing, send)
            return
        client_id = client_id or _named_in(scope, body) or connection_of(scope).client_id
        await self._pass(scope, outgoing, client_id, send)

    async def _is_from_tool(self, scope: Scope) -> bool:
        """Whether a tool of a server here sends it: with the token, it could answer for a person."""
        peer = (scope.get("extensions") or {}).get(PEER, {}).get("peer")
        if peer is None:
            return False
        if peer.is_tool is None:
            peer.is_tool = await asyncio.to_thread(is_tool, peer, self._servers(), self._folder)
        return bool(peer.is_tool)

    async def _pass(self, scope: Scope, outgoing: Outgoing, client_id: str, send: Send) -> None:
        is_polled = outgoing.method == "GET" and _POLLED.fullmatch(scope["path"]) is not None
        polled = client_id, outgoing.target
        if is_polled and not self._remote.is_reached and polled in self._polled:
            await _answer(send, *self._polled[polled])
            return
        try:
            answer, body = await self._remote.answer_to(outgoing, client_id=client_id)
            if answer.status == NOT_OPEN and await self._opened_again(scope, client_id, body):
                answer, body = await self._remote.answer_to(outgoing, client_id=client_id)
        except OutOfReach as error:
            sentence = str(error)
            if error.was_sent and not outgoing.is_repeatable:
                sentence += " The request may have been carried out."
            for message in http_error(BAD_GATEWAY, sentence):
                await send(message)
            return
        if is_polled and answer.status == 200 and len(self._polled) < MOST_POLLED:
            self._polled[polled] = answer.status, answer.raw_headers, body
        if answer.status < 300:
            await self._note(scope, outgoing, body)
        await _answer(send, answer.status, answer.raw_headers, body)

    async def _opened_again(self, scope: Scope, client_id: str, body: bytes) -> bool:
        """Whether a request failed because its workspace had closed meanwhile, and is open now."""
        match = _BELOW.match(scope["path"])
        if match is None or field_of(body, "message") != WorkspaceUnknown().sentence:
            return False
        openings = self._streams.openings
        return await openings.open_again(openings.key_of(match[1], client_id), self._remote)

    async def _note(self, scope: Scope, outgoing: Outgoing, body: bytes) -> None:
        """Remembers what a client has opened and left, to open it again or not to."""
        path, method = scope["path"], scope["method"]
        if method == "POST" and path.rstrip("/") == "/v1/workspaces":
            client_id = _named_in(scope, outgoing.body)
            connection_of(scope).note(client_id)
            self._streams.openings.opened(field_of(body, "id"), client_id, outgoing.body)
        elif method == "DELETE" and (match := _WORKSPACE.fullmatch(path)):
            query = parse_qs(scope["query_string"].decode("latin-1"))
            self._streams.openings.released(_first(query, "client_id"), match[1])
        elif method == "DELETE" and (match := _CLIENT.fullmatch(path)):
            self._streams.openings.released(match[1])
            await self._remote.close_client(match[1])

    async def _pass_stream(self, outgoing: Outgoing, send: Send) -> None:
        """Passes a native stream on as it comes. Its reader has a cursor, and reconnects itself."""
        try:
            async with self._remote.request(outgoing) as answer:
                start = {"type": "http.response.start", "status": answer.status}
                await send({**start, "headers": _end_to_end(answer.raw_headers)})
                async for chunk in answer.content.iter_any():
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OutOfReach as error:
            if not error.was_sent:
                for message in http_error(BAD_GATEWAY, str(error)):
                    await send(message)


def _outgoing(scope: Scope, body: bytes) -> Outgoing:
    raw = scope.get("raw_path") or scope["path"].encode()
    query = scope["query_string"]
    target = raw.partition(b"?")[0] + (b"?" + query if query else b"")
    named = _named_by_connection(scope["headers"])
    headers: CIMultiDict[str] = CIMultiDict()
    for name, value in scope["headers"]:
        text = name.decode("latin-1").lower()
        is_left_out = (
            text in HOP_BY_HOP
            or text in named
            or text in _REPLACED
            or text in _WITHOUT_A_LOCAL_ORIGIN
            or text.startswith(("x-forwarded-", "sec-fetch-"))
        )
        if not is_left_out:
            headers.add(text, value.decode("latin-1"))
    # A prompt with an id of its own is carried out once, however often it is sent.
    is_prompt = scope["method"] == "POST" and _PROMPT.fullmatch(scope["path"]) is not None
    return Outgoing(
        scope["method"],
        target.decode("latin-1"),
        headers,
        body,
        is_repeatable=scope["method"] in _REPEATABLE
        or (is_prompt and bool(field_of(body, "run_id")))
        or _is_claim(scope),
    )


def _is_claim(scope: Scope) -> bool:
    """Opening a folder, or showing a session, again changes nothing."""
    path: str = scope["path"].rstrip("/")
    return path == "/v1/workspaces" or path.endswith("/current-session")


def _named_by_connection(headers: Headers) -> frozenset[str]:
    """The further headers that belong to the connection, which ``Connection`` names."""
    names = [value for name, value in headers if name.lower() == b"connection"]
    return frozenset(
        part.strip().lower() for value in names for part in value.decode("latin-1").split(",")
    )


def _end_to_end(headers: Headers, *, length: int | None = None) -> list[tuple[bytes, bytes]]:
    named = _named_by_connection(headers)
    kept = [
        (name.lower(), value)
        for name, value in headers
        if (text := name.decode("latin-1").lower()) not in HOP_BY_HOP
        and text not in named
        and not (text == "content-length" and length is not None)
    ]
    return kept if length is None else [*kept, (b"content-length", b"%d" % length)]


async def _answer(send: Send, status: int, headers: Headers, body: bytes) -> None:
    kept = _end_to_end(headers, length=len(body))
    await send({"type": "http.response.start", "status": status, "headers": kept})
    await send({"type": "http.response.body", "body": body})


async def _whole_body(receive: Receive) -> bytes | None:
    chunks: list[bytes] = []
    while True:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


def _named_in(scope: Scope, body: bytes) -> str:
    """The client that a request names in its body."""
    return field_of(body, "client_id") if _is_claim(scope) else ""


def _first(query: dict[str, list[str]], name: str) -> str:
    return query.get(name, [""])[0]
