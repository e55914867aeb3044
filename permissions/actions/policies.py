"""A workspace's approval policy: when users are notified about an open request, and when it is denied.

The times are stored with each request, so they survive restarts, and any worker may act on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import F, Value

from people.actions.audit import Act, record
from permissions.models import ApprovalPolicy, BatchState, PermissionRequest, QuestionBatch
from workspaces.access import Actor, author_of
from workspaces.log.errors import BadField
from workspaces.log.timestamps import as_seconds
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind

SHORTEST_SECONDS = 1
LONGEST_SECONDS = 30 * 24 * 3600
# Who denies a request, or dismisses questions, when the time of the policy is over.
POLICY_AUTHOR = {"kind": "policy", "name": "approval policy", "user_id": None}


@dataclass(frozen=True, slots=True)
class PolicyTimes:
    """How long a request waits; ``None``: for as long as its run."""

    notify_after_seconds: int | None = None
    deny_after_seconds: int | None = None

    def __post_init__(self) -> None:
        """Raises ``BadField``."""
        for name in ("notify_after_seconds", "deny_after_seconds"):
            seconds = getattr(self, name)
            if seconds is not None and not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
                raise BadField(f"{name}: must be from {SHORTEST_SECONDS} to {LONGEST_SECONDS}")

    def due(self, asked_at: int) -> dict[str, int | None]:
        """Returns the columns of a request that was opened at this time, in milliseconds."""
        return {
            "notify_at": _after(asked_at, self.notify_after_seconds),
            "deny_at": _after(asked_at, self.deny_after_seconds),
        }


def policy_of(workspace_id: str) -> PolicyTimes:
    """Returns a workspace's policy. Synchronous."""
    row = ApprovalPolicy.objects.filter(pk=workspace_id).first()
    return PolicyTimes() if row is None else _times(row)


def set_policy(
    tx: Transaction, workspace_id: str, times: PolicyTimes, *, actor: Actor | None = None
) -> None:
    """Sets the policy, also for the requests and questions that are open."""
    tx.lock(workspace_id)
    policy, _ = ApprovalPolicy.objects.update_or_create(
        workspace_id=workspace_id,
        defaults={
            "notify_after_seconds": times.notify_after_seconds,
            "deny_after_seconds": times.deny_after_seconds,
            "author": author_of(actor),
            "changed_at": tx.now,
        },
    )
    for model in (PermissionRequest, QuestionBatch):
        model.objects.filter(workspace_id=workspace_id, state=BatchState.PENDING).update(
            notify_at=_column_after(times.notify_after_seconds),
            deny_at=_column_after(times.deny_after_seconds),
        )
    wire = policy_wire(workspace_id, policy)
    record(
        tx,
        actor,
        Act.APPROVAL_POLICY,
        workspace_id=workspace_id,
        outcome=str(policy),
        details={name: wire[name] for name in ("notify_after_seconds", "deny_after_seconds")},
    )
    tx.append(workspace_id, Kind.APPROVAL_POLICY_CHANGED, {"policy": wire})


def policy_wire(workspace_id: str, policy: ApprovalPolicy | None) -> dict[str, Any]:
    """Returns the policy for clients; without a row, requests wait."""
    return {
        "workspace_id": workspace_id,
        "notify_after_seconds": policy.notify_after_seconds if policy else None,
        "deny_after_seconds": policy.deny_after_seconds if policy else None,
        "author": policy.author if policy else None,
        "changed_at": as_seconds(policy.changed_at) if policy else None,
    }


def _times(row: ApprovalPolicy) -> PolicyTimes:
    return PolicyTimes(row.notify_after_seconds, row.deny_after_seconds)


def _after(asked_at: int, seconds: int | None) -> int | None:
    return None if seconds is None else asked_at + seconds * 1000


def _column_after(seconds: int | None) -> Any:
    return Value(None) if seconds is None else F("asked_at") + seconds * 1000
