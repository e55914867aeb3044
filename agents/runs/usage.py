"""What model requests have used: an entry for each, and sums by day, user, workspace and model.

An entry is written in the transaction that adds its figures to the session's totals.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Protocol

from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from agents.llm.usage import RequestUsage
from agents.models import UsageEntry, UsageKind
from workspaces.actions.sessions import add_usage
from workspaces.log.transaction import Transaction
from workspaces.measuring import Measured, measure

MS_A_DAY = 86_400_000

# One for most steps of a run, where a statement takes 8 µs and the ORM 64 (python -m
# tests.bench.framework).
_INSERT = (
    "INSERT INTO agents_usageentry (workspace_id, session_id, run_key, user_id, user_name, kind,"
    " provider, model, prompt_tokens, completion_tokens, cache_read_tokens, cache_write_tokens,"
    " cost, created_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)


class _RunOfRequest(Protocol):
    """The run that a request served, however it was read."""

    @property
    def key(self) -> int: ...
    @property
    def workspace_id(self) -> str: ...
    @property
    def session_id(self) -> str: ...
    @property
    def author(self) -> Mapping[str, Any] | None: ...


def store_usage(
    tx: Transaction,
    run: _RunOfRequest,
    used: RequestUsage,
    *,
    kind: UsageKind,
    context_tokens: int | None = None,
    summary_message_id: str | None = None,
) -> None:
    """Stores a request's entry and adds it to its session; some providers report nothing.

    ``context_tokens`` and ``summary_message_id``: of the conversation, if they change.
    """
    if used.is_known:
        _store_entry(tx, run, used, kind)
    if used.is_known or context_tokens is not None:
        add_usage(
            tx,
            run.session_id,
            prompt_tokens=used.prompt_tokens,
            completion_tokens=used.completion_tokens,
            cost=used.cost,
            is_newest=kind is not UsageKind.TITLE,
            context_tokens=context_tokens,
            summary_message_id=summary_message_id,
        )


def _store_entry(tx: Transaction, run: _RunOfRequest, used: RequestUsage, kind: UsageKind) -> None:
    author = run.author or {}
    user_id = author.get("user_id")
    tx.execute(
        _INSERT,
        [
            run.workspace_id,
            run.session_id,
            run.key,
            None if user_id is None else int(user_id),
            author.get("name", ""),
            kind.value,
            used.provider,
            used.model,
            used.prompt_tokens,
            used.completion_tokens,
            used.tokens.cache_read,
            used.tokens.cache_write,
            used.cost,
            tx.now,
        ],
    )


def measure_usage(used: RequestUsage) -> None:
    """Reports what a request has used, once its entry is stored."""
    if not used.is_known:
        return
    served_by = (used.provider, used.model)
    tokens = used.tokens
    for kind, count in (
        ("input", tokens.input),
        ("output", tokens.output),
        ("cache_read", tokens.cache_read),
        ("cache_write", tokens.cache_write),
    ):
        measure(Measured.TOKENS, count, *served_by, kind)
    measure(Measured.COST, used.cost, *served_by)


class UsageBy(StrEnum):
    """What sums of usage can be grouped by."""

    DAY = "day"  # of UTC
    USER = "user"
    WORKSPACE = "workspace"
    MODEL = "model"


_COLUMNS: dict[UsageBy, tuple[str, ...]] = {
    UsageBy.DAY: ("day",),
    UsageBy.USER: ("user_id", "user_name"),
    UsageBy.WORKSPACE: ("workspace_id", "workspace_path"),
    UsageBy.MODEL: ("provider", "model"),
}


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Which entries count. ``workspaces``: those that the reader may see; ``None`` for all."""

    since: int | None = None  # ms
    before: int | None = None  # ms
    workspaces: Collection[str] | None = None
    user: str = ""
    provider: str = ""
    model: str = ""
    session_id: str = ""

    def entries(self) -> QuerySet[UsageEntry]:
        named = {
            "user_name": self.user,
            "provider": self.provider,
            "model": self.model,
            "session_id": self.session_id,
        }
        chosen = Q(**{name: value for name, value in named.items() if value})
        if self.since is not None:
            chosen &= Q(created_at__gte=self.since)
        if self.before is not None:
            chosen &= Q(created_at__lt=self.before)
        if self.workspaces is not None:
            chosen &= Q(workspace_id__in=self.workspaces)
        return UsageEntry.objects.filter(chosen)


def read_usage(by: Sequence[UsageBy], chosen: UsageFilter) -> list[dict[str, Any]]:
    """Returns one sum for each group, the newest days first; one for all entries without groups."""
    entries = chosen.entries()
    names = [name for group in by for name in _COLUMNS[group]]
    groups = entries.annotate(
        day=F("created_at") / MS_A_DAY, workspace_path=F("workspace__path")
    ).values(*names)
    sums = {
        "prompt_tokens": Coalesce(Sum("prompt_tokens"), 0),
        "completion_tokens": Coalesce(Sum("completion_tokens"), 0),
        "cache_read_tokens": Coalesce(Sum("cache_read_tokens"), 0),
        "cache_write_tokens": Coalesce(Sum("cache_write_tokens"), 0),
        "cost": Coalesce(Sum("cost"), 0.0),
    }
    if not names:
        return [entries.aggregate(requests=Count("id"), **sums)]
    order = [f"-{name}" if name == "day" else name for name in names]
    found = groups.annotate(requests=Count("id"), **sums).order_by(*order)
    return [_with_date(row) for row in found]


def _with_date(row: dict[str, Any]) -> dict[str, Any]:
    if "day" in row:
        start = datetime.fromtimestamp(row["day"] * MS_A_DAY // 1000, UTC)
        row["day"] = start.date().isoformat()
    return row
