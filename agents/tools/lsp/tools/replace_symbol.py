"""Replaces or deletes a whole symbol, or adds text next to it.

The language server supplies the bounds of the symbol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments
from agents.tools.contract import (
    BadArguments,
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    ToolRefusal,
    load_description,
)
from agents.tools.files import changes
from agents.tools.files.changes import Change
from agents.tools.files.paths import shown
from agents.tools.limits import MAX_PATH_BYTES, MAX_TEXT_BYTES
from agents.tools.lsp import symbol_search
from agents.tools.lsp.peer import RequestFailed
from agents.tools.lsp.positions import PositionedText
from agents.tools.lsp.service import report_changes
from agents.tools.lsp.symbol_names import FoundSymbol, SymbolName, matching
from agents.tools.lsp.symbol_search import client_for, inner_path
from agents.tools.lsp.workspace import WorkspaceServers

ACTIONS = ("replace", "add_before", "add_after", "delete")
_CLOSERS = ("}", ")", "]", "end")


class Block:
    def __init__(self, text: str, start: int, end: int) -> None:
        """Covers ``start`` to ``end``, or whole lines if these contain nothing else."""
        self._text = text
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", end)
        line_end = len(text) if line_end < 0 else line_end
        before, after = text[line_start:start], text[end:line_end]
        self._is_whole = not before.strip() and not after.strip()
        self._indent = before if not before.strip() else ""
        self._start = line_start if self._is_whole else start
        self._end = line_end if self._is_whole else end

    def changed(self, action: str, given: str) -> str:
        head, own, tail = (
            self._text[: self._start],
            self._text[self._start : self._end],
            self._text[self._end :],
        )
        if not self._is_whole:
            return head + _change_note(action, own, given) + tail
        given = self._indented(given.removesuffix("\n"))
        if action == "replace":
            return head + given + tail
        if action == "add_before":
            return f"{head}{given}\n{own}{tail}"
        if action == "add_after":
            return f"{head}{own}\n{given}{tail or chr(10)}"
        return _closed_up(head, tail)

    def _indented(self, given: str) -> str:
        """Indents the text like the symbol, if it was written without that indentation."""
        lines = given.split("\n")
        written = [line for line in lines if line.strip()]
        if not self._indent or not written or written[0][0].isspace():
            return given
        first = lines.index(written[0])
        if len(written) > 1 and self._is_in_place(written[1:]):
            lines[first] = self._indent + lines[first]  # only the first line lacks indentation
            return "\n".join(lines)
        return "\n".join(self._indent + line if line.strip() else line for line in lines)

    def _is_in_place(self, body: Sequence[str]) -> bool:
        """Returns whether the lines after the first already have the file's indentation."""
        depth = _shallowest(body)
        closes = _depth(body[-1]) == depth and body[-1].lstrip().startswith(_CLOSERS)
        return depth > len(self._indent) or (depth == len(self._indent) and closes)


def _shallowest(lines: Sequence[str]) -> int:
    return min(_depth(line) for line in lines)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _change_note(action: str, own: str, given: str) -> str:
    if action == "replace":
        return given
    if action == "add_before":
        return given + own
    if action == "add_after":
        return own + given
    return ""


def _closed_up(head: str, tail: str) -> str:
    """Joins the text around a deleted symbol, without doubled blank lines."""
    tail = tail.removeprefix("\n")
    if not head or head.endswith("\n\n"):
        while tail.startswith("\n"):
            tail = tail[1:]
    return head + tail


@dataclass(frozen=True, slots=True)
class ReplaceArgs:
    symbol: str
    file_path: str
    replacement: str
    action: str


class ReplaceSymbol:
    repetition = Repetition.EFFECT
    spec = ToolSpec(
        name="lsp_replace_symbol",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "symbol": symbol_search.PROPERTIES["symbol"],
                "file_path": {
                    "type": "string",
                    "description": "The file that contains the symbol.",
                },
                "replacement": {
                    "type": "string",
                    "description": "The new text of the symbol, or the text to add.",
                },
                "action": {
                    "type": "string",
                    "enum": list(ACTIONS),
                    "description": "What to do (default: replace).",
                },
            },
            "required": ["symbol", "file_path"],
        },
    )

    def __init__(self, servers: WorkspaceServers) -> None:
        self._servers = servers

    def parse(self, given: Mapping[str, Any]) -> ReplaceArgs:
        action = arguments.text(given, "action", default="", max_bytes=50) or ACTIONS[0]
        if action not in ACTIONS:
            raise BadArguments(f"action must be one of {', '.join(ACTIONS)}, not {action!r:.60}.")
        replacement = arguments.text(given, "replacement", default="", max_bytes=MAX_TEXT_BYTES)
        if action != "delete" and not replacement:
            raise BadArguments(f"replacement is missing: it is required to {action}.")
        return ReplaceArgs(
            symbol_search.symbol(given),
            arguments.text(given, "file_path", max_bytes=MAX_PATH_BYTES, blank=False),
            replacement,
            action,
        )

    async def required_permission(
        self, args: ReplaceArgs, context: ToolContext
    ) -> RequiredPermission | None:
        change = await self._plan(args, context)
        verb = _VERBS[args.action][0]
        return await changes.required_permission(
            self.spec.name,
            change,
            context,
            named=args.file_path,
            description=f"{verb} {args.symbol} in {change.path}",
        )

    async def run(self, args: ReplaceArgs, context: ToolContext) -> ToolOutcome:
        change = await self._plan(args, context)
        diff = await changes.diff(change, context)
        await changes.commit(change, context)
        summary = (
            f"{_VERBS[args.action][1]} {args.symbol} in {shown(change.path, context)}"
            f" (+{diff.additions} -{diff.removals} lines)."
        )
        diagnostics = await report_changes(self._servers, [change.path])
        return ToolOutcome(
            "\n\n".join(part for part in (summary, diagnostics) if part),
            metadata={
                "file_path": str(change.path),
                "old_content": change.old_content,
                "new_content": change.after,
                "action": args.action,
            },
        )

    async def _plan(self, args: ReplaceArgs, context: ToolContext) -> Change:
        await inner_path(args.file_path, context)
        path, before = await changes.current(args.file_path, context)
        if before is None:
            raise ToolRefusal(f"{path} does not exist.")
        _, client = await client_for(
            self._servers,
            path,
            provider="documentSymbolProvider",
            method="textDocument/documentSymbol",
        )
        synced = await client.sync(path)
        if synced.text != before.text:
            raise ToolRefusal(f"{path} is changing at the moment. View it again.")
        try:
            symbols = await client.symbols(path)
        except RequestFailed as failed:
            raise ToolRefusal(str(failed)) from None
        wanted = SymbolName.parse(args.symbol)
        found = _only(matching(symbols, wanted), args, shown(path, context))
        text = PositionedText(before.text, client.capabilities.encoding)
        start, end = text.offset(found.symbol.span.start), text.offset(found.symbol.span.end)
        if start >= end or wanted.name not in before.text[start:end]:
            raise ToolRefusal(
                f"The language server has an outdated text of {path}. Use lsp_restart first."
            )
        replacement = args.replacement
        if before.form.newline == "\r\n":
            replacement = replacement.replace("\r\n", "\n")
        after = Block(before.text, start, end).changed(args.action, replacement)
        if after == before.text:
            raise ToolRefusal(f"{path} already has exactly this content; nothing was written.")
        return Change(path, before, changes.bounded(after))


_VERBS = {
    "replace": ("Replace", "Replaced"),
    "add_before": ("Add before", "Added before"),
    "add_after": ("Add after", "Added after"),
    "delete": ("Delete", "Deleted"),
}


def _only(found: list[FoundSymbol], args: ReplaceArgs, path: str) -> FoundSymbol:
    """Returns the only match. Raises ``ToolRefusal`` unless there is exactly one."""
    if not found:
        raise ToolRefusal(f"{path} has no symbol {args.symbol}. lsp_symbols lists its symbols.")
    if len(found) > 1:
        places = "; ".join(
            f"{'.'.join([*item.above, item.symbol.name])} on line {item.symbol.span.start.line + 1}"
            for item in found[:10]
        )
        raise ToolRefusal(
            f"{path} has {len(found)} symbols {args.symbol}: {places}. Add the name of its container, or use edit."
        )
    return found[0]
