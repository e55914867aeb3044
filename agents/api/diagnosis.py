"""What works in a folder as this server sees it. ``manage.py doctor`` reports it."""

from __future__ import annotations

import asyncio

from django.http import HttpResponse

from agents.diagnosis import diagnose_folder
from workspaces.api.answers import json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import Flag, PlainText
from workspaces.api.paths import PATH_LIMIT, resolved_folder
from workspaces.api.version import VERSION


class DiagnosisForm(Form):
    path = PlainText(limit=PATH_LIMIT)
    asks_model = Flag(default=False)


class DiagnosisView(ApiView):
    async def post(self) -> HttpResponse:
        """Not a GET: a request to a provider costs money."""
        fields = await self.fields(DiagnosisForm)
        folder = await asyncio.to_thread(resolved_folder, fields["path"])
        facts = await diagnose_folder(folder, asks_model=fields["asks_model"])
        return json_answer({"version": VERSION} | facts)
