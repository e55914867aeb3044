"""The facts on which a permission request was based, checked again before the tool runs.

Between the two a link may change its target, or a file may change and be viewed again.
The permission does not cover that. The facts are kept in memory within a limit; after a
restart only the current state of the disk counts.
"""

from __future__ import annotations

from collections import OrderedDict

from agents.tools.contract import ToolContext, ToolRefusal

_KEPT = 10_000
_snapshots: OrderedDict[tuple[str, str, str], tuple[object, ...]] = OrderedDict()


def remember(context: ToolContext, *facts: object) -> None:
    key = _key(context)
    _snapshots[key] = facts
    _snapshots.move_to_end(key)
    while len(_snapshots) > _KEPT:
        _snapshots.popitem(last=False)


def check(context: ToolContext, *facts: object) -> None:
    """Raises ``ToolRefusal`` if the facts differ from those of the permission request."""
    before = _snapshots.pop(_key(context), None)
    if before is not None and before != facts:
        raise ToolRefusal(
            "The path or the file has changed since permission for it was checked. "
            "View it again, then retry."
        )


def _key(context: ToolContext) -> tuple[str, str, str]:
    return context.session_id, context.message_id, context.call_id
