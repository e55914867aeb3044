"""Adds entries to the audit, in the transaction of the act itself: both are stored, or neither."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import orjson

from workspaces.access import Actor
from workspaces.log.transaction import Transaction


class Act(StrEnum):
    """What was done. A value that was stored once keeps its meaning."""

    PROMPT = "prompt"
    SUMMARIZE = "summarize"
    CANCEL = "cancel"
    CLEAR_QUEUE = "clear queue"
    CHANGE_QUEUE = "change queue"
    DELETE_SESSION = "delete session"
    REWIND = "rewind"
    UNDO_REWIND = "undo rewind"
    ANSWER = "answer"
    ANSWER_QUESTIONS = "answer questions"
    DISMISS_QUESTIONS = "dismiss questions"
    REVOKE_GRANT = "revoke grant"
    APPROVAL_POLICY = "approval policy"
    PERMISSION_MODE = "permission mode"
    LABELS = "labels"
    SHELL = "shell command"
    TRUST = "trust"
    CONFIGURE = "configure"
    CREATE_TOKEN = "create token"  # noqa: S105  the name of an act
    REVOKE_TOKEN = "revoke token"  # noqa: S105  the same
    CREATE_LOGIN_LINK = "create login link"
    ADD_USER = "add user"
    CHANGE_USER = "change user"
    ADD_GROUP = "add group"
    DELETE_GROUP = "delete group"
    SET_ROLE = "set role"
    SET_SHARE = "set share"
    CREATE_CHANNEL = "create channel"
    CHANGE_CHANNEL = "change channel"
    DELETE_CHANNEL = "delete channel"
    SECOND_FACTOR = "second factor"
    SIGN_IN = "sign in"
    SIGN_OUT = "sign out"


DONE = "done"
TARGET_CHARS = 200

# A statement: each prompt adds an entry.
_INSERT = (
    "INSERT INTO people_auditentry (at, kind, actor, user_id, token_id, client_id, address, act,"
    " workspace_id, session_id, target, outcome, details)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)


def record(
    tx: Transaction,
    actor: Actor | None,
    act: Act,
    *,
    workspace_id: str = "",
    session_id: str = "",
    target: str = "",
    outcome: str = DONE,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Adds an entry; without an actor it was the server's own doing, and nothing is added."""
    if actor is None:
        return
    tx.execute(
        _INSERT,
        [
            tx.now,
            actor.kind.value,
            actor.name,
            actor.user_id,
            actor.token_id,
            actor.client_id,
            actor.address,
            act.value,
            workspace_id,
            session_id,
            target[:TARGET_CHARS],
            outcome,
            orjson.dumps(details or {}).decode(),
        ],
    )
