"""From a symbol's name to places in files, and to servers that know more of them.

Models give names, not columns. Where a path is told only there is looked, else
the workspace is searched for the word; a server's outline of a file comes
before the bare text.
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
from agents.tools.lsp.naming import SymbolName, matching, name_position, occurrences
from agents.tools.lsp.peer import RequestFailed
from agents.tools.lsp.positions import Position, PositionedText
from agents.tools.lsp.workspace import WorkspaceServers
from agents.tools.search import ripgrep
from agents.tools.search.lines import Wanted, find_lines, line_shown
from agents.tools.search.scope import Scope

MAX_SYMBOL_BYTES = 500

PROPERTIES: Mapping[str, Any] = {
    "symbol": {
        "type": "string",
        "description": "The symbol's name, alone or with what it lies in: parse, Reader.parse.",
    },
    "path": {
        "type": "string",
        "description": "The file or folder to look for it in (default: the whole workspace).",
    },
}

# Of a tool that takes nothing else.
SCHEMA: Mapping[str, Any] = {"type": "object", "properties": PROPERTIES, "required": ["symbol"]}


@dataclass(frozen=True, slots=True)
class SymbolArgs:
    symbol: str
    path: str


def symbol(given: Mapping[str, Any], name: str = "symbol") -> str:
    written = arguments.text(given, name, max_bytes=MAX_SYMBOL_BYTES, blank=False)
    if "\n" in written or "\r" in written:  # searches go line by line
        raise BadArguments(f"{name} must stand on one line.")
    return written


def parse(given: Mapping[str, Any]) -> SymbolArgs:
    path = arguments.text(given, "path", default="", max_bytes=MAX_PATH_BYTES)
    return SymbolArgs(symbol(given), path)


START_SECONDS = 30.0  # for a server that this call has started
FILES = 8
PLACES_IN_A_FILE = 6


@dataclass(frozen=True, slots=True)
class Candidate:
    """A place where the symbol may stand, with a server that can be asked about it."""

    client: Client
    server: str
    path: Path
    position: Position


async def inner_path(asked: str, context: ToolContext) -> Path:
    """A path of the workspace. Raises ``ToolRefusal`` for any other."""
    path = await asyncio.to_thread(resolve, asked, context)
    if not is_inside(path, context.working_dir):
        raise ToolRefusal(
            f"{path} is outside of the working directory; language servers work only inside it."
        )
    return path


async def client_for(
    servers: WorkspaceServers, path: Path, *, provider: str, method: str
) -> tuple[str, Client]:
    """The first server that handles the file and can do this. Raises ``ToolRefusal``."""
    handling = await servers.for_file(path)
    why = f"No language server handles {path.name}."
    for server in handling:
        client = await server.ready(seconds=min(server.plan.seconds, START_SECONDS))
        if client is None:
            error = server.error or "It is still starting; try again in a moment."
            why = f"The language server {server.plan.name} is not ready. {error}"
        elif client.abilities.has(provider, method):
            return server.plan.name, client
        else:
            why = f"The language server {server.plan.name} cannot do this."
    raise ToolRefusal(why)


async def candidates(
    symbol: str,
    asked: str,
    context: ToolContext,
    servers: WorkspaceServers,
    *,
    provider: str,
    method: str,
) -> AsyncIterator[Candidate]:
    """The likeliest first. Raises ``ToolRefusal`` when there is none at all."""
    wanted = SymbolName.parse(symbol)
    where = await inner_path(asked, context)
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
        text = PositionedText(synced.text, client.abilities.encoding)
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
        Wanted(wanted.pattern, literal=False, include=None),
        Scope(where),
        context=context,
        binary=ripgrep.binary(),
    )
    # Files that seem to define it first, then in the order of their names.
    order = {
        name: any(wanted.is_defined_by(line_shown(line)) for line in lines)
        for name, lines in found.by_path.items()
    }
    names = sorted(order, key=lambda name: (not order[name], name))
    # A name that is no text cannot be told to a server.
    paths = [where / name for name in names if name.isprintable()]
    return await asyncio.to_thread(_code_first, paths)


def _code_first(paths: list[Path]) -> list[Path]:
    """Texts about code name its symbols as well, and have no server that knows them."""
    prose = {".md", ".markdown", ".txt", ".rst", ".json", ".lock", ".log", ".csv", ".html"}
    ordered = sorted(paths, key=lambda path: path.suffix.lower() in prose)
    return ordered[:FILES]


async def _positions(
    client: Client, path: Path, text: PositionedText, wanted: SymbolName
) -> list[Position]:
    told: list[Position] = []
    if client.abilities.has("documentSymbolProvider", "textDocument/documentSymbol"):
        try:
            symbols = await client.symbols(path)
        except RequestFailed:
            symbols = []
        told = [name_position(f.symbol, wanted, text) for f in matching(symbols, wanted)]
    read = occurrences(text, wanted, most=PLACES_IN_A_FILE)
    return list(dict.fromkeys([*told, *read]))[:PLACES_IN_A_FILE]


Answer = TypeVar("Answer")


async def first_answer(
    ask: Callable[[Candidate], Awaitable[Answer | None]],
    about: SymbolArgs,
    context: ToolContext,
    servers: WorkspaceServers,
    *,
    provider: str,
    method: str,
) -> Answer | None:
    """``None`` when no place had one. Raises ``ToolRefusal`` when a server failed instead."""
    failed: RequestFailed | None = None
    async for at in candidates(
        about.symbol, about.path, context, servers, provider=provider, method=method
    ):
        try:
            answer = await ask(at)
        except RequestFailed as error:
            failed = error
            continue
        if answer is not None:
            return answer
    if failed is not None:
        raise ToolRefusal(str(failed))
    return None
