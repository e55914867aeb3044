"""Makes ids: opaque strings for clients. Rows and events have numbers."""

from __future__ import annotations

import uuid
from typing import NewType

ClientId = NewType("ClientId", str)
LARGEST_NUMBER = 2**63 - 1  # of a row or an event


def new_id() -> str:
    return str(uuid.uuid4())
