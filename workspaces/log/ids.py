"""Makes ids: opaque strings for clients."""

from __future__ import annotations

import uuid
from typing import NewType

ClientId = NewType("ClientId", str)


def new_id() -> str:
    return str(uuid.uuid4())
