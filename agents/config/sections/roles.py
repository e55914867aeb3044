"""Reads ``fleet`` of the merged files: the roles that sub-agents may have, typed and expanded. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.config.expand import Lookup
from agents.config.problem import Problem
from agents.config.sections.entry import SectionEntry, entries_of
from agents.config.settings import FleetRole

WALL_CLOCK_SECONDS = 1_800
IDLE_SECONDS = 300
MOST_STEPS = 200
DEEPEST = 4
LONGEST_SECONDS = 7 * 24 * 3600
MOST_STEPS_EVER = 1_000_000


def fleet_roles(
    tree: Mapping[str, Any], *, lookup: Lookup, problems: list[Problem]
) -> dict[str, FleetRole]:
    entries = entries_of(tree, "fleet", lookup=lookup, problems=problems)
    return {entry.name: _role(entry) for entry in entries}


def _role(entry: SectionEntry) -> FleetRole:
    written = entry.written
    limits = written.get("limits") or {}
    endpoint, token = entry.text("endpoint"), entry.text("token")
    found_role = written.get("found_role") or ""
    if endpoint and not endpoint.startswith(("ws://", "wss://")):
        entry.fail("must begin with ws:// or wss://", at="endpoint")
    elif endpoint and found_role:
        entry.fail(
            "cannot be combined with an endpoint: a sub-agent runs in one place", at="found_role"
        )
    if not all(character.isascii() and character.isprintable() for character in token):
        entry.fail("contains a character that a header cannot hold", at="token")
    return FleetRole(
        name=entry.name,
        description=written.get("description") or "",
        executor=written.get("executor") or "crush",
        endpoint=endpoint,
        token=token,
        found_role=found_role,
        provider=written.get("provider") or "",
        model=written.get("model") or "",
        disabled_tools=tuple(written.get("disabled_tools") or ()),
        wall_clock_seconds=_seconds(limits.get("wall_clock") or WALL_CLOCK_SECONDS),
        idle_seconds=_seconds(limits.get("idle") or IDLE_SECONDS),
        most_steps=min(limits.get("steps") or MOST_STEPS, MOST_STEPS_EVER),
        depth=min(written.get("depth") or 1, DEEPEST),
        is_disabled=bool(written.get("disabled") or entry.fault),
        fault="" if written.get("disabled") else entry.fault,
    )


def _seconds(written: int) -> float:
    return float(min(written, LONGEST_SECONDS))
