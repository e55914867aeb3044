"""The client of one server: requests, streams, sessions."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from crushclient.addresses import TlsOptions, local_address, parse_address
from crushclient.api.resources import Api
from crushclient.folded_session import FoldedSession
from crushclient.retries import RetryPolicy
from crushclient.stream import EventStream, Protocol, open_workspace
from crushclient.transport import HttpTransport, Reply, Timeouts


@dataclass(frozen=True, slots=True)
class OpenWorkspace:
    """A workspace that is open for a client."""

    id: str
    path: str
    client_id: str


class Client:
    """An async context manager. One client has one pool of connections to one server.

    ``url`` is ``http://``, ``https://`` or ``unix://PATH``. A token is sent without encryption
    only to this machine, unless ``allow_unencrypted`` is set.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        tls: TlsOptions | None = None,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
        allow_unencrypted: bool = False,
    ) -> None:
        self.url = url
        self.transport = HttpTransport(
            parse_address(url),
            token=token,
            tls=tls,
            timeouts=timeouts or Timeouts(),
            retry=retry or RetryPolicy(),
            allow_unencrypted=allow_unencrypted,
        )
        self.api = Api(self.transport)

    @classmethod
    def local(
        cls, folder: Path | None = None, *, timeouts: Timeouts | None = None, token: str = ""
    ) -> Self:
        """Returns a client of the server that runs on the data folder, by default this user's.

        Raises ``ConnectionFailed`` if none is noted there. The server's certificate is not
        verified: it is for the public name, and the address comes from this user's own folder.
        """
        tls = TlsOptions(verify=False)
        return cls(local_address(folder), tls=tls, timeouts=timeouts, token=token)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.transport.close()

    # -- any request

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str | int | bool | None] | None = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str = "",
        is_repeatable: bool = False,
        seconds: float | None = None,
    ) -> Any:
        """Sends a request and returns the decoded JSON of its response, or ``None``.

        Raises ``ApiError`` and ``ConnectionFailed``.
        """
        reply = await self.exchange(
            method,
            path,
            body=body,
            query=query,
            headers=headers,
            idempotency_key=idempotency_key,
            is_repeatable=is_repeatable,
            seconds=seconds,
        )
        return reply.data

    async def exchange(self, method: str, path: str, **options: Any) -> Reply:
        """As ``request``, but returns the status, the headers and the content, too."""
        return await self.transport.request(method, path, **options)

    def download(
        self,
        path: str,
        *,
        query: Mapping[str, str | int | bool | None] | None = None,
        seconds: float | None = None,
    ) -> AsyncIterator[bytes]:
        """Yields the content of a response, such as an export, in pieces as they come."""
        return self.transport.download(path, query=query, seconds=seconds)

    async def open_workspace(
        self, path: str | Path, *, client_id: str | None = None, **options: Any
    ) -> OpenWorkspace:
        """Opens the workspace of a folder of the server, and claims it for a client.

        The workspace stays open while a stream with this client id is open, and for 30 s until
        one is. ``options``: ``yolo``, ``permission_mode``, ``env``.
        """
        client_id = client_id or str(uuid.uuid4())
        answer = await open_workspace(self.transport, str(path), client_id, **options)
        return OpenWorkspace(str(answer["id"]), str(answer["path"]), client_id)

    # -- streams

    def stream(
        self,
        workspace_id: str,
        *,
        after: int | None = None,
        client_id: str | None = None,
        path: str | None = None,
        protocol: Protocol = "websocket",
    ) -> EventStream:
        """Returns the stream of a workspace after an event; without a number from now on.

        With a ``client_id`` the stream keeps the workspace open for that client. With the
        workspace's ``path``, too, it opens the workspace again if it was closed meanwhile.
        """
        return EventStream(
            self.transport,
            workspace_id,
            after=after,
            client_id=client_id,
            path=path,
            protocol=protocol,
        )

    def follow(
        self,
        workspace_id: str,
        session_id: str,
        *,
        client_id: str | None = None,
        path: str | None = None,
        protocol: Protocol = "websocket",
        limit: int | None = None,
    ) -> FoldedSession:
        """Returns a session that is kept up to date. ``limit``: the newest messages only."""
        return FoldedSession(
            self.transport,
            workspace_id,
            session_id,
            client_id=client_id,
            path=path,
            protocol=protocol,
            limit=limit,
        )
