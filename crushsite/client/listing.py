"""Lists for people and for programs: pages of a server, tables that fit the terminal, JSON, times."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from crushsite.cli.terminal import aligned, cut, width_of
from crushsite.cli.terminal_output import plain

if TYPE_CHECKING:
    from crushclient import Client, OpenWorkspace

GAP = 2  # blanks between columns
NARROW_FLEXIBLE = 12
NARROWEST = 3
PAGE = 200
RELEASE_SECONDS = 3.0
LIMIT = 50
SHOWN_ID = 8
NONE = "–"

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """``is_flexible``: it becomes narrower where the terminal is too narrow.

    ``is_optional``: it is left out where that is not enough. ``widest``: longer cells are cut.
    """

    heading: str
    is_flexible: bool = False
    is_number: bool = False
    is_optional: bool = False
    widest: int = 10_000


def table(columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> str:
    """A table as wide as the terminal, or as wide as its cells where there is none."""
    # The cells come from models, tools and other users.
    cells = [
        [cut(plain(str(cell)), column.widest) for cell, column in zip(row, columns, strict=True)]
        for row in rows
    ]
    if not sys.stdout.isatty():
        return aligned([column.heading for column in columns], cells)
    # Drawing takes a moment to load, and a pipe does without.
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from crushsite.client.screen import rendered, size_of_terminal  # noqa: PLC0415

    columns_of_terminal, _ = size_of_terminal()
    shown = shown_columns(columns, cells, columns_of_terminal)
    columns = [columns[index] for index in shown]
    cells = [[row[index] for index in shown] for row in cells]
    widths = widths_for(columns, cells, columns_of_terminal)
    drawn = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column, width in zip(columns, widths, strict=True):
        drawn.add_column(
            Text(column.heading),
            no_wrap=True,
            overflow="ellipsis",
            justify="right" if column.is_number else "left",
            width=width,
        )
    for row in cells:
        drawn.add_row(*(Text(cell) for cell in row))
    lines = rendered(drawn, columns_of_terminal).rstrip("\n").split("\n")
    return "\n".join(line.rstrip() for line in lines)


def shown_columns(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int
) -> list[int]:
    """The columns that fit with flexible ones at their narrowest; the last optional goes first."""
    natural = _natural_widths(columns, cells)
    least = [
        min(size, NARROW_FLEXIBLE) if column.is_flexible else size
        for column, size in zip(columns, natural, strict=True)
    ]
    shown = list(range(len(columns)))
    for index in reversed(range(len(columns))):
        if sum(least[each] + GAP for each in shown) <= width:
            break
        if columns[index].is_optional:
            shown.remove(index)
    return shown


def widths_for(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """How wide each column is drawn: first flexible columns become narrower, then the widest. Pure."""
    found = _natural_widths(columns, cells)
    room = width - GAP * (len(columns) - 1) - 1
    flexible = [index for index, column in enumerate(columns) if column.is_flexible]
    for candidates, narrowest in ((flexible, NARROW_FLEXIBLE), (range(len(columns)), NARROWEST)):
        while sum(found) > room:
            wide = [index for index in candidates if found[index] > narrowest]
            if not wide:
                break
            found[max(wide, key=lambda index: found[index])] -= 1
    return found


def _natural_widths(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[int]:
    return [
        max(width_of(text) for text in (column.heading, *(row[index] for row in cells)))
        for index, column in enumerate(columns)
    ]


def shown_id(text: str) -> str:
    """The beginning of an id where a person reads it, which commands accept; else the whole id."""
    return text[:SHOWN_ID] if sys.stdout.isatty() else text


def as_json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def moment(seconds: Any) -> str:
    """A time in unix seconds, to the second."""
    if not seconds:
        return NONE
    return f"{datetime.fromtimestamp(float(seconds), UTC):%Y-%m-%d %H:%M:%SZ}"


def duration(seconds: float) -> str:
    """A length of time in its two largest units."""
    whole = max(int(seconds), 0)
    for size, unit, smaller, name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {name}"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def below(workspace_id: str, *parts: str) -> str:
    """The address of a resource of a workspace."""
    return "/".join(
        ["/api/workspaces", *(quote(str(part), safe="") for part in (workspace_id, *parts))]
    )


async def items(
    client: Client, path: str, query: Mapping[str, Any] | None = None, *, limit: int | None = None
) -> list[dict[str, Any]]:
    """The objects of a list, through as many pages as needed. Raises ``CrushError``."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        size = PAGE if limit is None else min(PAGE, limit - len(found))
        page = await client.request(
            "GET", path, query={**(query or {}), "limit": size, "cursor": cursor}
        )
        found += page["items"]
        cursor = page["next"]
        if cursor is None or (limit is not None and len(found) >= limit):
            return found


@asynccontextmanager
async def opened(client: Client, path: str) -> AsyncIterator[OpenWorkspace]:
    """Yields the workspace of a folder, which stays open meanwhile."""
    workspace = await client.open_workspace(path)
    try:
        yield workspace
    finally:
        await released(client, workspace)


async def released(client: Client, workspace: OpenWorkspace) -> None:
    """Leaves the workspace. A server that does not answer finds it out by itself."""
    from crushclient import CrushError  # noqa: PLC0415  loaded by the caller

    with suppress(CrushError, TimeoutError):
        async with asyncio.timeout(RELEASE_SECONDS):
            await client.request(
                "DELETE",
                f"/v1/workspaces/{quote(workspace.id, safe='')}",
                query={"client_id": workspace.client_id},
            )
