"""What a call was judged by when its question was put, so that running can hold to it.

Between the two a link may be turned to elsewhere, or a file changed and viewed
anew: the answer was not for that. Kept in memory and bounded; after a restart a
call is judged by what is on the disk alone.
"""

from __future__ import annotations

from collections import OrderedDict

from agents.tools.contract import ToolContext, ToolRefusal

_KEPT = 10_000
_judged: OrderedDict[tuple[str, str, str], tuple[object, ...]] = OrderedDict()


def remember(context: ToolContext, *facts: object) -> None:
    key = _key(context)
    _judged[key] = facts
    _judged.move_to_end(key)
    while len(_judged) > _KEPT:
        _judged.popitem(last=False)


def check(context: ToolContext, *facts: object) -> None:
    """Raises ``ToolRefusal`` when the facts are others than at the question."""
    before = _judged.pop(_key(context), None)
    if before is not None and before != facts:
        raise ToolRefusal(
            "Since permission for this was judged, the path leads elsewhere or the file has changed. "
            "Look at it again, then retry."
        )


def _key(context: ToolContext) -> tuple[str, str, str]:
    return context.session_id, context.message_id, context.call_id
