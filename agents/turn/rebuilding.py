"""Rebuilds a turn from its stored messages, for a worker that continues it. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from agents.turn.inputs import RequestedCall
from agents.turn.notes import DENIED_RESULT, EARLIER_DENIED_RESULTS
from agents.turn.state import LOOP_WINDOW, Call, Phase, Progress, Turn, digest_of, trace_of

# A stored denial is recognised by its result: a rebuilt turn must end after it too.
DENIED_DIGEST = digest_of(DENIED_RESULT)
_DENIED_DIGESTS = frozenset(map(digest_of, (DENIED_RESULT, *EARLIER_DENIED_RESULTS)))


def rebuild(steps: Sequence[Sequence[RequestedCall]], results: Sequence[tuple[str, str]]) -> Turn:
    """Returns the turn that wrote these messages and has not ended.

    ``steps``: the calls of each finished reply, in order. ``results``: call id
    and content of each result so far, in order.
    """
    # A call's id is unique only within its reply: the next reply may use it again.
    contents: dict[str, deque[str]] = {}
    for call_id, content in results:
        contents.setdefault(call_id, deque()).append(content)
    open_calls: tuple[Call, ...] = ()
    trail: list[str] = []
    is_denied = False
    for step in steps:
        open_calls = tuple(
            Call(request, Progress.DONE, digest_of(contents[request.id].popleft()))
            if contents.get(request.id)
            else Call(request)
            for request in step
        )
        is_denied = any(call.digest in _DENIED_DIGESTS for call in open_calls)
        if open_calls and all(call.progress is Progress.DONE for call in open_calls):
            trail.append(trace_of(open_calls))
            open_calls = ()
    return Turn(
        phase=Phase.TOOLS if steps else Phase.FRESH,
        calls=open_calls,
        steps=len(steps),
        trail=tuple(trail[-LOOP_WINDOW:]),
        is_denied=is_denied,
    )
