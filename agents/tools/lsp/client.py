"""Typed requests to one running language server.

Methods take and return paths and positions. For any response a method returns a value
of its declared type or raises ``RequestFailed``. Independent of the workspace and
of the server's lifecycle.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agents.tools.lsp.diagnostics import DiagnosticStore
from agents.tools.lsp.documents import Documents, Synced
from agents.tools.lsp.handshake import (
    MalformedMessage,
    Protocol,
    ServerCapabilities,
    initialize_params,
    setting_of,
)
from agents.tools.lsp.peer import LspPeer, NoSuchMethod, RequestFailed
from agents.tools.lsp.plans import ServerPlan
from agents.tools.lsp.positions import Position, TextEdit, address_of, path_of
from agents.tools.lsp.responses import (
    MOST,
    CallEnd,
    CodeLocation,
    Symbol,
    call_end_in,
    edits_in,
    places_in,
    symbol_in,
)
from agents.tools.lsp.server_process import StartedServer

logger = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 0.7
REFRESHED = 10  # open files to pull again when a server requests a refresh of diagnostics

# Server requests that need only an empty response.
_NODDED_AT = frozenset(
    {
        "window/workDoneProgress/create",
        "window/showMessageRequest",
        "workspace/codeLens/refresh",
        "workspace/inlayHint/refresh",
        "workspace/inlineValue/refresh",
        "workspace/semanticTokens/refresh",
        "workspace/foldingRange/refresh",
    }
)


class Client:
    def __init__(
        self,
        started: StartedServer,
        plan: ServerPlan,
        root: Path,
        *,
        protocol: Protocol,
        on_diagnostics: Callable[[], None],
    ) -> None:
        self._protocol = protocol
        self._types = protocol.types
        self._plan = plan
        self._root = root
        self._seconds = plan.seconds
        self._refresh: asyncio.Task[None] | None = None
        self.capabilities = ServerCapabilities()
        self.diagnostics = DiagnosticStore(on_diagnostics)
        self.peer = LspPeer(
            started.reader,
            started.transport,
            on_request=self._on_request,
            on_notification=self._on_notification,
            clean=plan.without_secrets,
        )
        self.documents = self._documents()

    async def initialize(self, *, process_id: int) -> None:
        """Performs the handshake and sends the settings. Raises ``RequestFailed``."""
        params = initialize_params(
            self._protocol, self._root, process_id=process_id, options=self._plan.init_options
        )
        raw = await self._request_raw("initialize", params)
        capabilities = raw.get("capabilities") if isinstance(raw, Mapping) else None
        if not isinstance(capabilities, Mapping):
            raise RequestFailed("The language server did not report its capabilities.")
        self.capabilities.raw = capabilities
        self.documents = self._documents()
        self._notify("initialized", self._types.InitializedParams())
        settings = dict(self._plan.options)
        self._notify(
            "workspace/didChangeConfiguration", self._types.DidChangeConfigurationParams(settings)
        )

    async def shut_down(self) -> None:
        """Requests a shutdown; the caller ends the process, whether the server complies or not."""
        if self._refresh is not None:
            self._refresh.cancel()
        try:
            await self.peer.request("shutdown", None, seconds=SHUTDOWN_SECONDS)
            self.peer.notify("exit", None)
        except RequestFailed:
            pass
        self.peer.end("it was stopped")

    async def sync(self, path: Path) -> Synced:
        """Sends the file's current content to the server. Raises ``ToolRefusal``."""
        return await self.documents.sync(path)

    @property
    def pulls(self) -> bool:
        return self.capabilities.has("diagnosticProvider", "textDocument/diagnostic")

    async def pull(self, path: Path, *, seconds: float | None = None) -> None:
        """Requests a file's diagnostics and stores them. Raises ``RequestFailed``."""
        params = self._types.DocumentDiagnosticParams(
            self._named(path), identifier=self.capabilities.pull_identifier
        )
        raw = await self._request_raw("textDocument/diagnostic", params, seconds=seconds)
        if isinstance(raw, Mapping) and isinstance(items := raw.get("items"), list):
            self.diagnostics.update(str(path), items)

    async def definition(self, path: Path, position: Position) -> list[CodeLocation]:
        params = self._types.DefinitionParams(self._named(path), self._at(position))
        found = await self._request("textDocument/definition", params)
        several = found if isinstance(found, list | tuple) else [found] if found else []
        return places_in(several)

    async def references(self, path: Path, position: Position) -> list[CodeLocation]:
        context = self._types.ReferenceContext(include_declaration=True)
        params = self._types.ReferenceParams(context, self._named(path), self._at(position))
        return places_in(await self._request("textDocument/references", params) or [])

    async def symbols(self, path: Path) -> list[Symbol]:
        params = self._types.DocumentSymbolParams(self._named(path))
        found = await self._request("textDocument/documentSymbol", params) or []
        return [symbol_in(item) for item in found[:MOST]]

    async def calls(
        self, path: Path, position: Position, *, incoming: bool
    ) -> list[CallEnd] | None:
        """Returns the calls, or ``None`` when nothing callable is at this position."""
        types = self._types
        params = types.CallHierarchyPrepareParams(self._named(path), self._at(position))
        items = await self._request("textDocument/prepareCallHierarchy", params)
        if not items:
            return None
        if incoming:
            method = "callHierarchy/incomingCalls"
            found = (
                await self._request(method, types.CallHierarchyIncomingCallsParams(items[0])) or []
            )
            ends = [call_end_in(call.from_, call.from_ranges) for call in found[:MOST]]
        else:
            method = "callHierarchy/outgoingCalls"
            found = (
                await self._request(method, types.CallHierarchyOutgoingCallsParams(items[0])) or []
            )
            ends = [call_end_in(call.to, call.from_ranges) for call in found[:MOST]]
        return [end for end in ends if end is not None]

    async def rename(
        self, path: Path, position: Position, new_name: str
    ) -> dict[Path, list[TextEdit]]:
        """Returns the edits of every file. Raises ``RequestFailed``, also for a move of files."""
        params = self._types.RenameParams(self._named(path), self._at(position), new_name)
        found = await self._request("textDocument/rename", params)
        return {} if found is None else edits_in(found)

    # -- requests

    async def _request(self, method: str, params: Any) -> Any:
        raw = await self._request_raw(method, params)
        try:
            return await asyncio.to_thread(self._protocol.result, method, raw)
        except MalformedMessage:
            raise RequestFailed(
                f"The language server's response to {method} is malformed."
            ) from None

    async def _request_raw(self, method: str, params: Any, *, seconds: float | None = None) -> Any:
        plain = self._protocol.plain(params)
        return await self.peer.request(method, plain, seconds=seconds or self._seconds)

    def _notify(self, method: str, params: Any) -> None:
        self.peer.notify(method, self._protocol.plain(params))

    def _named(self, path: Path) -> Any:
        return self._types.TextDocumentIdentifier(address_of(path))

    def _at(self, position: Position) -> Any:
        return self._types.Position(position.line, position.character)

    def _documents(self) -> Documents:
        return Documents(
            self._protocol,
            self._notify,
            notifies_saves=self.capabilities.requires_saves,
            takes_changes=self.capabilities.takes_changes,
        )

    # -- requests and notifications of the server

    def _on_request(self, method: str, params: Any) -> Any:
        if method == "workspace/configuration":
            items = params.get("items") if isinstance(params, Mapping) else None
            return [
                setting_of(self._plan.options, _get(item, "section"))
                for item in (items if isinstance(items, list) else [])[:100]
            ]
        if method == "workspace/workspaceFolders":
            return [{"uri": address_of(self._root), "name": self._root.name or "/"}]
        if method == "workspace/applyEdit":  # this client never requests one
            return {"applied": False, "failureReason": "not requested"}
        if method in {"client/registerCapability", "client/unregisterCapability"}:
            self._register(params, add=method == "client/registerCapability")
            return None
        if method == "workspace/diagnostic/refresh":
            self._refresh_soon()
            return None
        if method in _NODDED_AT:
            return None
        raise NoSuchMethod

    def _on_notification(self, method: str, params: Any) -> None:
        if method != "textDocument/publishDiagnostics" or not isinstance(params, Mapping):
            return
        path, items = path_of(params.get("uri")), params.get("diagnostics")
        version = params.get("version")
        if path is not None and isinstance(items, list):
            known = isinstance(version, int) and not isinstance(version, bool)
            self.diagnostics.update(str(path), items, version if known else None)

    def _register(self, params: Any, *, add: bool) -> None:
        # The misspelling in the second name is the protocol's.
        key = "registrations" if add else "unregisterations"
        items = params.get(key) if isinstance(params, Mapping) else None
        for item in (items if isinstance(items, list) else [])[:100]:
            method = _get(item, "method")
            if isinstance(method, str) and len(method) < 100:
                (self.capabilities.registered.add if add else self.capabilities.registered.discard)(
                    method
                )

    def _refresh_soon(self) -> None:
        if self._refresh is None or self._refresh.done():
            self._refresh = asyncio.create_task(self._pull_open(), name="language-server-refresh")

    async def _pull_open(self) -> None:
        for name in self.documents.paths()[-REFRESHED:]:
            try:
                await self.pull(Path(name))
            except RequestFailed:
                return


def _get(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, Mapping) else None
