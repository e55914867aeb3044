"""Reads ``mcp`` and ``lsp`` of the merged files into typed, expanded values. Pure.

A server whose command line, address or headers are incomplete is disabled with a fault: nothing
is started or called with half of them. An ``lsp`` entry without a command configures or disables
the known server of its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.config.expand import Lookup
from agents.config.http_values import is_address, is_header_name, is_header_value
from agents.config.problem import Problem
from agents.config.sections.entry import SectionEntry, entries_of
from agents.config.settings import LspSettings, McpSettings

MCP_TIMEOUT_SECONDS = 15.0
_PORTS = 65_535
# The names of the transports, including those that other programs use.
_KINDS = {
    "stdio": "stdio",
    "sse": "sse",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
}


def mcp_servers(
    tree: Mapping[str, Any], *, lookup: Lookup, problems: list[Problem]
) -> dict[str, McpSettings]:
    entries = entries_of(tree, "mcp", lookup=lookup, problems=problems)
    return {entry.name: _mcp_server(entry) for entry in entries}


def _mcp_server(entry: SectionEntry) -> McpSettings:
    written = entry.written
    kind = _kind(entry)
    is_local = kind == "stdio"
    command = entry.text("command") if is_local else ""
    args = entry.texts("args") if is_local else ()
    environment = entry.environment() if is_local else {}
    url = "" if is_local else _url(entry)
    headers = {} if is_local else _headers(entry)
    if is_local and not command and not entry.fault:
        entry.fail("is missing", at="command")
    port = written.get("oauth_callback_port") or 0
    if port > _PORTS:
        entry.report(f"must be at most {_PORTS}", at="oauth_callback_port")
        port = 0
    return McpSettings(
        name=entry.name,
        kind=kind,
        command=command,
        args=args,
        env=environment,
        url=url,
        headers=headers,
        timeout_seconds=entry.seconds(MCP_TIMEOUT_SECONDS),
        oauth=written.get("oauth"),
        oauth_client_id=entry.text("oauth_client_id"),
        oauth_client_secret=entry.text("oauth_client_secret"),
        oauth_callback_port=port,
        enabled_tools=frozenset(written.get("enabled_tools") or ()),
        disabled_tools=frozenset(written.get("disabled_tools") or ()),
        # Last, because reading the other fields may set the fault.
        is_disabled=bool(written.get("disabled") or entry.fault),
        fault="" if written.get("disabled") else entry.fault,
    )


def _kind(entry: SectionEntry) -> str:
    written = str(entry.written.get("type") or "").strip().lower()
    if not written:
        return "stdio" if entry.written.get("command") else "http"
    kind = _KINDS.get(written)
    if kind is None:
        entry.fail("must be stdio, http or sse", at="type")
        return "http"
    return kind


def _url(entry: SectionEntry) -> str:
    url = entry.text("url")
    if not url and not entry.fault:
        entry.fail("is missing (a server has a command or a url)", at="url")
    elif url and not is_address(url):
        entry.fail("must be an http:// or https:// address", at="url")
        return ""
    return url


def _headers(entry: SectionEntry) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in entry.map("headers").items():
        if not is_header_name(name) or not is_header_value(value):
            entry.report("is not a valid header", at=f"headers.{name}")
        elif value.strip():
            headers[name] = value
    return headers


LSP_TIMEOUT_SECONDS = 30.0


def language_servers(
    tree: Mapping[str, Any], *, lookup: Lookup, problems: list[Problem]
) -> dict[str, LspSettings]:
    entries = entries_of(tree, "lsp", lookup=lookup, problems=problems)
    return {entry.name: _language_server(entry) for entry in entries}


def _language_server(entry: SectionEntry) -> LspSettings:
    written = entry.written
    command, args = entry.text("command"), entry.texts("args")
    return LspSettings(
        name=entry.name,
        command=command,
        args=args,
        env=entry.environment(),
        filetypes=tuple(
            kind.strip().removeprefix("*").removeprefix(".").lower()
            for kind in written.get("filetypes") or ()
            if kind.strip("*. ")
        ),
        root_markers=tuple(written.get("root_markers") or ()),
        init_options=written.get("init_options") or {},
        options=written.get("options") or {},
        timeout_seconds=entry.seconds(LSP_TIMEOUT_SECONDS),
        is_disabled=bool(written.get("disabled") or entry.fault),
        fault="" if written.get("disabled") else entry.fault,
    )
