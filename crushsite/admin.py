"""Gives the admin its name, and what belongs to the running process: its clients' streams."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from asgiref.sync import async_to_sync
from django.contrib import admin

from agents.admin import WorkspaceAdmin
from crushsite.process import process
from crushsite.sign_in import ThrottledSignIn
from workspaces.storage.errors import ShuttingDown


def _close_streams(workspace_id: str, client_ids: Iterable[str]) -> None:
    async def close() -> None:  # streams belong to the loop, and the admin works in a thread
        for client_id in client_ids:
            process().attachments.close_client(client_id, workspace_id)

    with suppress(ShuttingDown):  # a process without a server holds no streams
        async_to_sync(close)()


admin.site.login_form = ThrottledSignIn
admin.site.site_header = admin.site.site_title = "Crush server"
WorkspaceAdmin.close_streams = staticmethod(_close_streams)
