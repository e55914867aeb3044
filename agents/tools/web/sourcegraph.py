"""Searches public code with Sourcegraph's GraphQL API.

``SRC_ENDPOINT`` and ``SRC_ACCESS_TOKEN`` in the workspace's environment select another
instance, as for Sourcegraph's own command.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from agents.llm.contract import ToolSpec
from agents.tools import arguments, limits
from agents.tools.contract import (
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    ToolRefusal,
    load_description,
)
from agents.tools.limits import SEARCH_LINE_CHARS, cut_line
from agents.tools.web.access import web_url
from workspaces.storable import storable_text

_MATCHES_PER_FILE = 10


@dataclass(frozen=True, slots=True)
class CodeFile:
    repository: str
    path: str
    url: str
    lines: tuple[str, ...]  # of the whole file; empty if it was not sent
    matches: tuple[tuple[int, str], ...]  # line number from 1, and the line

    def shown(self, around: int) -> str:
        head = f"{self.repository}: {self.path}"
        if self.url:
            head += f"\n{self.url}"
        blocks = [head]
        for first, end in self._ranges(around):
            lines = self.lines[first - 1 : end]
            blocks.append(_numbered(enumerate(lines, start=first)))
        blocks += [  # matches without their line: the content is missing or too short
            _numbered([match])
            for match in self.matches[:_MATCHES_PER_FILE]
            if match[0] > len(self.lines)
        ]
        left_out = len(self.matches) - _MATCHES_PER_FILE
        if left_out > 0:
            blocks.append(f"({left_out:,} more matches in this file.)")
        return "\n...\n".join(blocks)

    def _ranges(self, around: int) -> list[tuple[int, int]]:
        """Returns the ranges of lines to show; adjacent ranges are merged."""
        ranges: list[tuple[int, int]] = []
        for number, _ in self.matches[:_MATCHES_PER_FILE]:
            if number > len(self.lines):
                continue
            first, end = max(1, number - around), min(number + around, len(self.lines))
            if ranges and first <= ranges[-1][1] + 1:
                first = ranges.pop()[0]
            ranges.append((first, end))
        return ranges


@dataclass(frozen=True, slots=True)
class CodeMatches:
    files: tuple[CodeFile, ...]
    match_count: int
    notes: tuple[str, ...]


def _numbered(lines: Iterable[tuple[int, str]]) -> str:
    return "\n".join(f"{n:>6}|{cut_line(line, SEARCH_LINE_CHARS)}" for n, line in lines)


def code_matches(body: bytes) -> CodeMatches:
    """Parses a response. Raises ``ToolRefusal`` for an error or an unknown structure."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise ToolRefusal("Sourcegraph's response is not JSON.") from None
    if (errors := _items(answer, "errors")) and (message := _text(errors[0], "message")):
        raise ToolRefusal(f"Sourcegraph rejected the query: {message[:500]}")
    results: Any = answer
    for name in ("data", "search", "results"):
        results = results.get(name) if isinstance(results, dict) else None
    if not isinstance(results, dict):
        raise ToolRefusal("Sourcegraph's response has an unknown format: its API may have changed.")
    files = tuple(_files(_items(results, "results")))
    count = results.get("matchCount")
    return CodeMatches(files, count if isinstance(count, int) else len(files), _notes(results))


def _files(rows: list[Any]) -> Iterator[CodeFile]:
    for row in rows:
        if not isinstance(row, dict) or row.get("__typename") != "FileMatch":
            continue
        repository, file = row.get("repository"), row.get("file")
        yield CodeFile(
            repository=_text(repository, "name"),
            path=_text(file, "path"),
            url=_text(file, "url"),
            lines=tuple(_text(file, "content").splitlines()),
            matches=tuple(sorted(_matches(_items(row, "lineMatches")))),
        )


def _matches(rows: list[Any]) -> Iterator[tuple[int, str]]:
    for row in rows:
        number = row.get("lineNumber") if isinstance(row, dict) else None
        if isinstance(number, int) and number >= 0:
            yield number + 1, _text(row, "preview")


def _notes(results: dict[str, Any]) -> tuple[str, ...]:
    notes: list[str] = []
    alert = results.get("alert")
    if title := _text(alert, "title"):
        notes.append(f"(Sourcegraph reports: {title[:200]} {_text(alert, 'description')[:500]})")
    if results.get("limitHit") is True or _items(results, "timedout"):
        notes.append("(Not everything was searched: narrow the query.)")
    return tuple(notes)


def _items(row: Any, name: str) -> list[Any]:
    value = row.get(name) if isinstance(row, dict) else None
    return value if isinstance(value, list) else []


def _text(row: Any, name: str) -> str:
    value = row.get(name) if isinstance(row, dict) else None
    return storable_text(value) if isinstance(value, str) else ""


_PUBLIC = "https://sourcegraph.com"
_QUERY = """\
query Search($query: String!) {
  search(query: $query, version: V3, patternType: standard) {
    results {
      matchCount
      limitHit
      timedout { name }
      alert { title description }
      results {
        __typename
        ... on FileMatch {
          repository { name }
          file { path url content }
          lineMatches { preview lineNumber }
        }
      }
    }
  }
}"""


@dataclass(frozen=True, slots=True)
class SourcegraphArgs:
    query: str
    count: int = limits.CODE_RESULTS
    context_window: int = limits.CODE_CONTEXT_LINES
    timeout: int = limits.FETCH_SECONDS


class Sourcegraph:
    repetition = Repetition.PURE
    spec = ToolSpec(
        name="sourcegraph",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "The query, in Sourcegraph's syntax."},
                "count": {"type": "integer", "description": "How many files (default 10)."},
                "context_window": {
                    "type": "integer",
                    "description": "Lines around each match (default 10).",
                },
                "timeout": {"type": "integer", "description": "Seconds to wait (default 30)."},
            },
            "required": ["query"],
        },
    )

    def parse(self, given: Mapping[str, Any]) -> SourcegraphArgs:
        def count(name: str, default: int, most: int) -> int:
            return arguments.count(given, name, default=0, most=most) or default

        window = arguments.count(
            given,
            "context_window",
            default=limits.CODE_CONTEXT_LINES,
            most=limits.MAX_CODE_CONTEXT_LINES,
        )
        return SourcegraphArgs(
            arguments.text(given, "query", max_bytes=limits.MAX_QUERY_BYTES, blank=False).strip(),
            count("count", limits.CODE_RESULTS, limits.MAX_CODE_RESULTS),
            window,
            count("timeout", limits.FETCH_SECONDS, limits.MAX_FETCH_SECONDS),
        )

    async def required_permission(
        self, args: SourcegraphArgs, context: ToolContext
    ) -> RequiredPermission | None:
        if context.env.get("SRC_ENDPOINT"):
            return None  # the user's own instance
        # The query leaves the machine, and the model may put anything it has read into it.
        return RequiredPermission(
            tool_name=self.spec.name,
            action="search",
            path=str(context.working_dir),
            description=f"Search public code on sourcegraph.com: {args.query}",
            params={
                "query": args.query,
                "count": args.count,
                "context_window": args.context_window,
                "timeout": args.timeout,
            },
        )

    async def run(self, args: SourcegraphArgs, context: ToolContext) -> ToolOutcome:
        from agents.tools.web import client, pages  # noqa: PLC0415  importing aiohttp is slow

        own, token = context.env.get("SRC_ENDPOINT", ""), context.env.get("SRC_ACCESS_TOKEN", "")
        endpoint = web_url(own or _PUBLIC)
        headers = {"Content-Type": "application/json"}
        if token and token.isprintable():
            headers["Authorization"] = f"token {token}"
        # A count in the query takes precedence over the argument.
        query = args.query if "count:" in args.query else f"{args.query} count:{args.count}"
        request = client.Request(
            f"{str(endpoint).rstrip('/')}/.api/graphql",
            method="POST",
            headers=headers,
            body=orjson.dumps({"query": _QUERY, "variables": {"query": query}}),
            seconds=args.timeout,
            follows=False,  # the token is for this host alone
        )
        # The user configured this instance, so it may have a private address.
        allowed = f"{endpoint.host}:{endpoint.port}" if own else ""
        async with client.response_to(client.web_of(context, allowed), request) as answer:
            pages.require_success(answer)
            body, is_cut = await answer.read(limits.MAX_PAGE_BYTES)
        if is_cut:
            raise ToolRefusal("Sourcegraph's response is too large. Narrow the query.")
        return _outcome(code_matches(body), args)


def _outcome(found: CodeMatches, args: SourcegraphArgs) -> ToolOutcome:
    if not found.files:
        return ToolOutcome("\n\n".join(["No results were found.", *found.notes]))
    shown = found.files[: args.count]
    blocks = [f"Found {found.match_count:,} matches; {len(shown)} files are shown."]
    blocks += [file.shown(args.context_window) for file in shown]
    blocks += found.notes
    content = "\n\n".join(blocks)
    if len(content) > limits.FETCH_CHARS:
        content = f"{content[: limits.FETCH_CHARS]}\n\n(The rest was left out: narrow the query.)"
    return ToolOutcome(content)
