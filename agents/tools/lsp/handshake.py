"""The first words with a language server: what this client can do, what the server can.

Only what is used is promised: a server leaves out what its client has no word for.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from agents.tools.lsp.positions import UTF_16, address_of


class Unfit(Exception):
    """What a server sent does not have the shape that the protocol gives it."""


@dataclass(frozen=True, slots=True)
class Protocol:
    types: Any  # the module ``lsprotocol.types``
    converter: Any

    def plain(self, value: Any) -> Any:
        """As it goes over the wire."""
        return self.converter.unstructure(value)

    def result(self, method: str, raw: Any) -> Any:
        """A typed result of a request. Raises ``Unfit``."""
        response = self.types.METHOD_TO_TYPES[method][1]
        whole = self._typed({"jsonrpc": "2.0", "id": 0, "result": raw}, response)
        return whole.result

    def params(self, method: str, raw: Any) -> Any:
        """Typed parameters of a notification. Raises ``Unfit``."""
        return self._typed(raw, self.types.METHOD_TO_TYPES[method][2])

    def _typed(self, raw: Any, kind: Any) -> Any:
        try:
            return self.converter.structure(raw, kind)
        except Exception as error:  # the library raises whatever the odd value makes it raise
            raise Unfit from error


async def load_protocol() -> Protocol:
    return await asyncio.to_thread(_load)


@cache
def _load() -> Protocol:
    types = importlib.import_module("lsprotocol.types")
    converters = importlib.import_module("lsprotocol.converters")
    return Protocol(types, converters.get_converter())


_ENCODINGS = ("utf-8", UTF_16, "utf-32")


@dataclass(slots=True)
class Abilities:
    """What a server said of itself, read without trust in its shape."""

    raw: Mapping[str, Any] = field(default_factory=dict)
    registered: set[str] = field(default_factory=set)  # methods that it told of later

    def has(self, provider: str, method: str = "") -> bool:
        return self.raw.get(provider) not in (None, False) or method in self.registered

    @property
    def encoding(self) -> str:
        told = self.raw.get("positionEncoding")
        return told if told in _ENCODINGS else UTF_16

    @property
    def tells_pull_identifier(self) -> str | None:
        provider = self.raw.get("diagnosticProvider")
        told = provider.get("identifier") if isinstance(provider, Mapping) else None
        return told if isinstance(told, str) else None

    @property
    def takes_changes(self) -> bool:
        sync = self.raw.get("textDocumentSync")
        kind = sync.get("change") if isinstance(sync, Mapping) else sync
        return kind in (1, 2)

    @property
    def wants_saves(self) -> bool:
        sync = self.raw.get("textDocumentSync")
        return isinstance(sync, Mapping) and sync.get("save") not in (None, False)


def greeting(protocol: Protocol, root: Path, *, process_id: int, options: Mapping[str, Any]) -> Any:
    """Typed parameters of ``initialize``."""
    types = protocol.types
    address = address_of(root)
    return types.InitializeParams(
        process_id=process_id,
        client_info=types.ClientInfo("crushsite"),
        root_path=str(root),
        root_uri=address,
        workspace_folders=[types.WorkspaceFolder(address, root.name or "/")],
        initialization_options=dict(options) or None,
        capabilities=_capabilities(types),
    )


def _capabilities(types: Any) -> Any:
    link = {"link_support": True}
    diagnostics = types.PublishDiagnosticsClientCapabilities(version_support=True)
    symbols = types.DocumentSymbolClientCapabilities(hierarchical_document_symbol_support=True)
    return types.ClientCapabilities(
        general=types.GeneralClientCapabilities(
            position_encodings=[types.PositionEncodingKind.Utf16]
        ),
        window=types.WindowClientCapabilities(work_done_progress=True),
        workspace=types.WorkspaceClientCapabilities(
            configuration=True,
            workspace_folders=True,
            workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True),
            did_change_configuration=types.DidChangeConfigurationClientCapabilities(),
            diagnostics=types.DiagnosticWorkspaceClientCapabilities(refresh_support=True),
        ),
        text_document=types.TextDocumentClientCapabilities(
            synchronization=types.TextDocumentSyncClientCapabilities(did_save=True),
            publish_diagnostics=diagnostics,
            diagnostic=types.DiagnosticClientCapabilities(dynamic_registration=True),
            definition=types.DefinitionClientCapabilities(**link),
            references=types.ReferenceClientCapabilities(),
            document_symbol=symbols,
            rename=types.RenameClientCapabilities(),
            call_hierarchy=types.CallHierarchyClientCapabilities(),
        ),
    )


def setting_of(options: Mapping[str, Any], section: object) -> Any:
    """What a server asks for by a dotted name; all of it without one."""
    if not isinstance(section, str) or not section:
        return dict(options)
    found: Any = options
    for name in section.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return options.get(section)  # some write the dotted name as one key
        found = found[name]
    return found
