"""Trust in a folder: what its configuration would do, and a person's answer.

The answer equals that to a trust request, and works for folders that no client has open.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from django.http import HttpResponse

from agents.config.cache import config_of_folder
from agents.config.edits.trust_requests import apply_trust, revoke_trust, set_trust, shown_trust
from workspaces.api.answers import json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import PlainText
from workspaces.api.paths import PATH_LIMIT, resolved_folder
from workspaces.log.errors import BadField, Refusal
from workspaces.log.reader import read
from workspaces.log.writer import writer
from workspaces.queries.trust import answered_requests, shown_answer


class TrustChanged(Refusal):
    """the folder's configuration has changed since it was shown: review it again"""

    code = "trust_changed"
    status = 409


class TrustForm(Form):
    path = PlainText(limit=PATH_LIMIT)
    answer = PlainText(limit=20)
    digest = PlainText(limit=64, allow_blank=True, default="")


class TrustView(ApiView):
    async def get(self) -> HttpResponse:
        """Of one folder, or every answer where no ``path`` is given."""
        path = self.query("path", limit=PATH_LIMIT)
        if not path:
            answered = await read(answered_requests, "")
            return json_answer({"answers": [shown_answer(one) for one in answered]})
        return json_answer(await _shown(await asyncio.to_thread(resolved_folder, path)))

    async def post(self) -> HttpResponse:
        fields = await self.fields(TrustForm)
        folder = await asyncio.to_thread(resolved_folder, fields["path"])
        match fields["answer"]:
            case "revoke":
                await writer.write("", partial(revoke_trust, path=folder))
            case "allow" | "deny" as answer:
                config = await read(config_of_folder, folder)
                if not fields["digest"]:
                    raise BadField("digest is required: it identifies what was reviewed")
                if fields["digest"] != config.trust.powers.digest:
                    raise TrustChanged
                is_allowed = answer == "allow"
                await writer.write(
                    "", partial(set_trust, path=folder, config=config, is_allowed=is_allowed)
                )
            case _:
                raise BadField("answer must be one of allow, deny, revoke")
        await apply_trust(folder)
        return json_answer(await _shown(folder))


async def _shown(folder: str) -> dict[str, Any]:
    return shown_trust(await read(config_of_folder, folder))
