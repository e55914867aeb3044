"""The handshake with a language server: the capabilities of this client and of the server.

The client declares only the capabilities that it uses, because a server omits the
features that its client does not support.
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


class MalformedMessage(Exception):
    """A server's message does not have the structure that the protocol requires."""


@dataclass(frozen=True, slots=True)
class Protocol:
    types: Any  # the module ``lsprotocol.types``
    converter: Any

    def plain(self, value: Any) -> Any:
        """Converts a typed value to the JSON structure of the protocol."""
        return self.converter.unstructure(value)

    def result(self, method: str, raw: Any) -> Any:
        """Converts the result of a request to its type. Raises ``MalformedMessage``."""
        response = self.types.METHOD_TO_TYPES[method][1]
        whole = self._typed({"jsonrpc": "2.0", "id": 0, "result": raw}, response)
        return whole.result

    def params(self, method: str, raw: Any) -> Any:
        """Converts the parameters of a notification to their type. Raises ``MalformedMessage``."""
        return self._typed(raw, self.types.METHOD_TO_TYPES[method][2])

    def _typed(self, raw: Any, kind: Any) -> Any:
        try:
            return self.converter.structure(raw, kind)
        except Exception as error:  # a bad value can make the library raise any exception
            raise MalformedMessage from error


async def load_protocol() -> Protocol:
    return await asyncio.to_thread(_load)


@cache
def _load() -> Protocol:
    types = importlib.import_module("lsprotocol.types")
    converters = importlib.import_module("lsprotocol.converters")
    return Protocol(types, converters.get_converter())


_ENCODINGS = ("utf-8", UTF_16, "utf-32")


@dataclass(slots=True)
class ServerCapabilities:
    """The capabilities that a server declares, read without trust in their structure."""

    raw: Mapping[str, Any] = field(default_factory=dict)
    registered: set[str] = field(default_factory=set)  # methods registered after the handshake

    def has(self, provider: str, method: str = "") -> bool:
        return self.raw.get(provider) not in (None, False) or method in self.registered

    @property
    def encoding(self) -> str:
        encoding = self.raw.get("positionEncoding")
        return encoding if encoding in _ENCODINGS else UTF_16

    @property
    def pull_identifier(self) -> str | None:
        provider = self.raw.get("diagnosticProvider")
        identifier = provider.get("identifier") if isinstance(provider, Mapping) else None
        return identifier if isinstance(identifier, str) else None

    @property
    def takes_changes(self) -> bool:
        sync = self.raw.get("textDocumentSync")
        kind = sync.get("change") if isinstance(sync, Mapping) else sync
        return kind in (1, 2)

    @property
    def requires_saves(self) -> bool:
        sync = self.raw.get("textDocumentSync")
        return isinstance(sync, Mapping) and sync.get("save") not in (None, False)


def initialize_params(
    protocol: Protocol, root: Path, *, process_id: int, options: Mapping[str, Any]
) -> Any:
    """Returns typed parameters for ``initialize``."""
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
    """Returns the setting with a dotted name; all settings without a name."""
    if not isinstance(section, str) or not section:
        return dict(options)
    found: Any = options
    for name in section.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return options.get(section)  # some configurations use the dotted name as one key
        found = found[name]
    return found
