"""Ids: opaque strings to the outside, distinct types to the checker."""

from __future__ import annotations

import uuid
from typing import NewType

WorkspaceId = NewType("WorkspaceId", str)
SessionId = NewType("SessionId", str)
MessageId = NewType("MessageId", str)
ClientId = NewType("ClientId", str)


def new_id() -> str:
    return str(uuid.uuid4())
