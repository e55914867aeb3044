"""What interactive clients ask for while they draw and this server has nothing of: empty shapes."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from workspaces.api.answers import json_answer
from workspaces.api.api_view import ApiView
from workspaces.queries.workspaces import require_open
from workspaces.storage.reader import read


class EmptyView(ApiView):
    shape: Any = None

    async def get(self, workspace_id: str) -> HttpResponse:
        await read(require_open, workspace_id)
        return json_answer(self.shape)
