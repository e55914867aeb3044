"""Finds the positions of a symbol by its name, and a language server for each.

Models give names, not columns. With a path the search covers only that path, without
one the whole workspace. Positions from a server's symbols come before positions from
a text search.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from agents.tools import arguments
from agents.tools.contract import BadArguments, ToolContext, ToolRefusal
from agents.tools.files.paths import is_inside, resolve, shown
from agents.tools.limits import MAX_PATH_BYTES
from agents.tools.lsp.client import Client
from agents.tools.lsp.peer import RequestFailed
from agents.tools.lsp.positions import Position, PositionedText
from agents.tools.lsp.symbol_names import SymbolName, matching, name_position, occurrences
from agents.tools.lsp.workspace import WorkspaceServers
from agents.tools.search import search_process
from agents.tools.search.lines import LineQuery, find_lines, line_shown
from agents.tools.search.scope import Scope

MAX_SYMBOL_BYTES = 500

PROPERTIES: Mapping[str, Any] = {
    "symbol": {
        "type": "string",
        "description": "The symbol's name, alone or with its container: parse, Reader.parse.",
    },
    "path": {
        "type": "string",
        "description": "The file or folder to search (default: the whole workspace).",
    },
}

# The schema of a tool with no other arguments.
SCHEMA: Mapping[str, Any] = {"type": "object", "properties": PROPERTIES, "required": ["symbol"]}


@dataclass(frozen=True, slots=True)
class SymbolArgs:
    symbol: str
    path: str


def symbol(given: Mapping[str, Any], name: str = "symbol") -> str:
    written = arguments.text(given, name, max_bytes=MAX_SYMBOL_BYTES, blank=False)
    if "\n" in written or "\r" in written:  # searches go line by line
        raise BadArguments(f"{name} must be a single line.")
    return written


def parse(given: Mapping[str, Any]) -> SymbolArgs:
    path = arguments.text(given, "path", default="", max_bytes=MAX_PATH_BYTES)
    return SymbolArgs(symbol(given), path)


START_SECONDS = 30.0  # for a server that this call has started
FILES = 8
PLACES_IN_A_FILE = 6


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible position of the symbol, with a server that handles the file."""

    client: Client
    server: str
    path: Path
    position: Position


async def inner_path(requested: str, context: ToolContext) -> Path:
    """Returns a resolved path inside the workspace. Raises ``ToolRefusal`` for any other."""
    path = await asyncio.to_thread(resolve, requested, context)
    if not is_inside(path, context.working_dir):
        raise ToolRefusal(
            f"{path} is outside of the working directory; language servers work only inside it."
        )
    return path


async def client_for(
    servers: WorkspaceServers, path: Path, *, provider: str, method: str
) -> tuple[str, Client]:
    """Returns the first ready server that handles the file and supports the method.

    Raises ``ToolRefusal``.
    """
    handling = await servers.for_file(path)
    why = f"No language server handles {path.name}."
    for server in handling:
        client = await server.ready(seconds=min(server.plan.seconds, START_SECONDS))
        if client is None:
            error = server.error or "It is still starting; try again in a moment."
            why = f"The language server {server.plan.name} is not ready. {error}"
        elif client.capabilities.has(provider, method):
            return server.plan.name, client
        else:
            why = f"The language server {server.plan.name} does not support this."
    raise ToolRefusal(why)


async def candidates(
    symbol: str,
    requested: str,
    context: ToolContext,
    servers: WorkspaceServers,
    *,
    provider: str,
    method: str,
) -> AsyncIterator[Candidate]:
    """Yields the most likely positions first. Raises ``ToolRefusal`` when there is none."""
    wanted = SymbolName.parse(symbol)
    where = await inner_path(requested, context)
    files = await _files(wanted, where, context)
    place = "the workspace" if where == context.working_dir else shown(where, context)
    not_there = ToolRefusal(f"{symbol} was not found in {place}.")
    if not files:
        raise not_there
    why: ToolRefusal | None = None
    any_found = False
    for path in files:
        try:
            name, client = await client_for(servers, path, provider=provider, method=method)
            synced = await client.sync(path)
        except ToolRefusal as refusal:
            why = why or refusal
            continue
        text = PositionedText(synced.text, client.capabilities.encoding)
        for position in await _positions(client, path, text, wanted):
            any_found = True
            yield Candidate(client, name, path, position)
    if not any_found:
        raise why or not_there


async def _files(wanted: SymbolName, where: Path, context: ToolContext) -> list[Path]:
    if await asyncio.to_thread(where.is_file):
        return [where]
    if not await asyncio.to_thread(where.is_dir):
        raise ToolRefusal(f"{where} does not exist.")
    found = await find_lines(
        LineQuery(wanted.pattern, literal=False, include=None),
        Scope(where),
        context=context,
        binary=search_process.binary(),
    )
    # Files that seem to define the symbol come first, then sort by name.
    order = {
        name: any(wanted.is_defined_by(line_shown(line)) for line in lines)
        for name, lines in found.by_path.items()
    }
    names = sorted(order, key=lambda name: (not order[name], name))
    # A file name that is not printable text cannot be sent to a server.
    paths = [where / name for name in names if name.isprintable()]
    return await asyncio.to_thread(_code_first, paths)


def _code_first(paths: list[Path]) -> list[Path]:
    """Sorts documents after code: they name symbols too, but no server handles them."""
    prose = {".md", ".markdown", ".txt", ".rst", ".json", ".lock", ".log", ".csv", ".html"}
    ordered = sorted(paths, key=lambda path: path.suffix.lower() in prose)
    return ordered[:FILES]


async def _positions(
    client: Client, path: Path, text: PositionedText, wanted: SymbolName
) -> list[Position]:
    from_server: list[Position] = []
    if client.capabilities.has("documentSymbolProvider", "textDocument/documentSymbol"):
        try:
            symbols = await client.symbols(path)
        except RequestFailed:
            symbols = []
        from_server = [name_position(f.symbol, wanted, text) for f in matching(symbols, wanted)]
    from_text = occurrences(text, wanted, most=PLACES_IN_A_FILE)
    return list(dict.fromkeys([*from_server, *from_text]))[:PLACES_IN_A_FILE]


Answer = TypeVar("Answer")


async def first_answer(
    request: Callable[[Candidate], Awaitable[Answer | None]],
    about: SymbolArgs,
    context: ToolContext,
    servers: WorkspaceServers,
    *,
    provider: str,
    method: str,
) -> Answer | None:
    """Returns the first result, or ``None`` when no position has one.

    Raises ``ToolRefusal`` when there is no result and a server failed.
    """
    failed: RequestFailed | None = None
    async for at in candidates(
        about.symbol, about.path, context, servers, provider=provider, method=method
    ):
        try:
            answer = await request(at)
        except RequestFailed as error:
            failed = error
            continue
        if answer is not None:
            return answer
    if failed is not None:
        raise ToolRefusal(str(failed))
    return None
