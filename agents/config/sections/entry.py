"""One named entry of ``mcp`` or ``lsp`` while it is read.

Expands its texts, reports what is wrong with them, and keeps why the server cannot be started.
Reports name places and variables, never values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.config.expand import Lookup, expand
from agents.config.problem import Problem, problem_with_key, warning_with_key

SERVERS_LIMIT = 100
ITEMS_LIMIT = 256  # of a server's arguments, variables or headers
SECONDS_LIMIT = 3_600.0


@dataclass(slots=True)
class SectionEntry:
    section: str
    name: str
    written: Mapping[str, Any]
    lookup: Lookup
    problems: list[Problem]
    fault: str = ""

    def report(self, message: str, *, at: str) -> None:
        key = f"{self.section}.{self.name}"
        self.problems.append(problem_with_key(f"{key}.{at}" if at else key, message))

    def fail(self, message: str, *, at: str) -> None:
        """Reports an error with which the server must not start.

        Half a command line, for instance, would do something else.
        """
        self.report(message, at=at)
        self.fault = self.fault or (f"{at}: {message}" if at else message)

    def text(self, name: str) -> str:
        """Returns an expanded text. If it is not complete, the server cannot be started."""
        return self._expanded(str(self.written.get(name) or ""), at=name).strip()

    def texts(self, name: str) -> tuple[str, ...]:
        items = self.written.get(name) or []
        self._count(items, at=name)
        return tuple(
            self._expanded(item, at=f"{name}[{index}]")
            for index, item in enumerate(items[:ITEMS_LIMIT])
        )

    def environment(self, name: str = "env") -> dict[str, str]:
        """Returns the environment without entries that need an unset variable.

        Many programs use such an entry only if it is set.
        """
        variables: dict[str, str] = {}
        for variable, value in self._items(name):
            expanded = expand(value, self.lookup)
            at = f"{name}.{variable}"
            if not expanded.whole:
                key = f"{self.section}.{self.name}.{at}"
                self.problems.append(warning_with_key(key, f"is left out: {expanded.why}"))
            elif "=" in variable or "\0" in variable or "\0" in expanded.text:
                self.report("is not a valid variable", at=at)
            else:
                variables[variable] = expanded.text
        return variables

    def map(self, name: str) -> dict[str, str]:
        return {
            item: self._expanded(value, at=f"{name}.{item}") for item, value in self._items(name)
        }

    def seconds(self, default: float) -> float:
        written = self.written.get("timeout") or 0
        return min(float(written), SECONDS_LIMIT) if written else default

    def _items(self, name: str) -> list[tuple[str, str]]:
        written: Mapping[str, str | None] = self.written.get(name) or {}
        items = [(item, value) for item, value in written.items() if value is not None]
        self._count(items, at=name)
        return items[:ITEMS_LIMIT]

    def _count(self, items: list[Any], *, at: str) -> None:
        if len(items) > ITEMS_LIMIT:
            self.report(f"only the first {ITEMS_LIMIT} are used", at=at)

    def _expanded(self, written: str, *, at: str) -> str:
        expanded = expand(written, self.lookup)
        if not expanded.whole:
            self.fail(expanded.why, at=at)
            return ""
        if "\0" in expanded.text:
            self.fail("holds a NUL character", at=at)
            return ""
        return expanded.text


def entries_of(
    tree: Mapping[str, Any], section: str, *, lookup: Lookup, problems: list[Problem]
) -> list[SectionEntry]:
    servers = tree.get(section) or {}
    if len(servers) > SERVERS_LIMIT:
        problems.append(problem_with_key(section, f"only the first {SERVERS_LIMIT} are used"))
    # A disabled server may be incomplete, so its problems are not reported.
    return [
        SectionEntry(section, name, written, lookup, [] if written.get("disabled") else problems)
        for name, written in list(servers.items())[:SERVERS_LIMIT]
    ]
