"""Opens permission requests of runs of several people, and answers them."""

from __future__ import annotations

from typing import Any

from agents.models import Run
from agents.runs.answer import Answer, Resolution, resolve
from agents.runs.calls.permission_check import (
    CallVerdict,
    CheckedCall,
    check_call,
)
from agents.runs.lease import Lease
from agents.tools.contract import RequiredPermission
from permissions.actions.requests import AnswerOptions
from permissions.models import PermissionRequest
from tests.integration.runs.ground import (
    Ground,
    say,
    write,
)
from workspaces.access import Actor, IdentityKind

SCHEMA = {
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
}
QUESTION = RequiredPermission(
    "bash", "execute", "/project", "Execute command: ls", {"command": "ls"}
)
ANN = Actor(IdentityKind.USER, "ann", 101, via="socket")
BOB = Actor(IdentityKind.TOKEN, "bob", 102, via="rest")
HOUR = 3_600_000


def waiting(ground: Ground, *calls: str, actor: Actor | None = None, session_id: str = "") -> Lease:
    held = ground.start(session_id=session_id or ground.new_session())
    if actor is not None:
        Run.objects.filter(pk=held.key).update(author=actor.author())
    say(held, calls=calls)
    return held


def check(held: Lease, call_id: str = "c", question: RequiredPermission = QUESTION) -> CheckedCall:
    return write(
        lambda tx: check_call(
            tx, held, question, call_id=call_id, allowed_tools=frozenset(), schema=SCHEMA
        )
    )


def verdict(
    held: Lease, call_id: str = "c", question: RequiredPermission = QUESTION
) -> CallVerdict:
    return check(held, call_id, question).verdict


def request_of(held: Lease, call_id: str = "c") -> PermissionRequest:
    return PermissionRequest.objects.get(run_key=held.key, tool_call_id=call_id, is_replaced=False)


def answer(
    held: Lease,
    given: Answer = Answer.ALLOW,
    *,
    call_id: str = "c",
    actor: Actor | None = None,
    request_id: str = "",
    **options: Any,
) -> Resolution:
    pk = request_id or request_of(held, call_id).pk
    return write(
        lambda tx: resolve(
            tx,
            held.workspace_id,
            request_id=pk,
            tool_call_id="",
            answer=given,
            options=AnswerOptions(**options),
            actor=actor,
        )
    )
