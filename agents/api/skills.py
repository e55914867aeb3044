"""Endpoints for the skills of a workspace: the list for pickers, and the content of one."""

from __future__ import annotations

import asyncio
import base64
from typing import ClassVar

from django.http import HttpResponse

from agents.skills.cache import skill_cache
from agents.skills.discover import read_skill
from agents.skills.skill import InvalidSkill
from workspaces.access import Right
from workspaces.api.answers import json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import PlainText
from workspaces.api.paths import PATH_LIMIT
from workspaces.log.errors import SkillUnknown
from workspaces.log.reader import read
from workspaces.queries.workspaces import require_open


class SkillsView(ApiView):
    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})

    async def get(self, workspace_id: str) -> HttpResponse:
        await read(require_open, workspace_id)
        return json_answer(
            [
                {
                    "description": skill.description,
                    "id": skill.id,
                    "label": skill.label,
                    "name": skill.name,
                    "source": skill.location.source,
                    "user_invocable": skill.user_invocable,
                }
                for skill in await skill_cache().skills_of(workspace_id, newest=True)
            ]
        )


class SkillForm(Form):
    skill_id = PlainText(limit=PATH_LIMIT)


class ReadSkillView(ApiView):
    rights: ClassVar = {"post": Right.READ}
    folder_methods: ClassVar = frozenset({"post"})

    async def post(self, workspace_id: str) -> HttpResponse:
        """Returns a skill's content. Only ids from the list are valid, so no other file is read."""
        skill_id = (await self.fields(SkillForm))["skill_id"]
        await read(require_open, workspace_id)
        skills = await skill_cache().skills_of(workspace_id, newest=True)
        skill = next((skill for skill in skills if skill.id == skill_id), None)
        if skill is None:
            raise SkillUnknown
        try:
            content = await asyncio.to_thread(read_skill, skill)
        except InvalidSkill as invalid:
            raise SkillUnknown(f"the skill cannot be read: {invalid}") from None
        return json_answer(
            {
                "content": base64.b64encode(content).decode("ascii"),
                "result": {
                    "builtin": skill.is_builtin,
                    "description": skill.description,
                    "name": skill.name,
                    "source": skill.location.source,
                },
            }
        )
