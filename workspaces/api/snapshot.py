"""The snapshot of the native API: a state and the number of the event at which it is true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from django.http import HttpResponse

from workspaces.access import Right
from workspaces.api.answers import json_answer
from workspaces.api.api_view import ApiView
from workspaces.log.errors import BadField
from workspaces.log.reader import read
from workspaces.queries.snapshot import (
    MESSAGES,
    MOST_MESSAGES,
    ReadMore,
    read_workspace_snapshot,
)


class SnapshotView(ApiView):
    rights: ClassVar = {"get": Right.READ}

    more: Sequence[ReadMore] = ()

    async def get(self, workspace_id: str) -> HttpResponse:
        snapshot = await read(
            read_workspace_snapshot,
            workspace_id,
            session_id=self.query("session"),
            limit=_limit(self.query("limit")),
            more=self.more,
        )
        return json_answer(snapshot)


def _limit(written: str) -> int:
    if not written:
        return MESSAGES
    is_number = written.isascii() and written.isdigit() and len(written) < 10
    if not is_number or not 1 <= int(written) <= MOST_MESSAGES:
        raise BadField(f"limit: must be a number from 1 to {MOST_MESSAGES}")
    return int(written)
