"""A workspace's configuration as clients may see it, and its skills."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.config.cache import configs
from agents.config.load import LoadedConfig
from agents.config.trust.decision import TrustState
from agents.skills.cache import skill_cache
from agents.skills.discover import read_skill
from agents.skills.skill import InvalidSkill, Skill, SkillSource
from workspaces.access import Right
from workspaces.api.paths import PATH_LIMIT
from workspaces.log.errors import SkillUnknown
from workspaces.rest.view import Resource


class ConfigProblemSerializer(serializers.Serializer[Any]):
    text = serializers.CharField(help_text="Where and what, in a sentence without values.")
    is_warning = serializers.BooleanField(help_text="Nothing is broken.")


class ConfigurationSerializer(serializers.Serializer[Any]):
    """The merged configuration of a workspace."""

    config = serializers.DictField(
        help_text="As in `crush.json`, with the chosen models and with masked secrets."
    )
    problems = ConfigProblemSerializer(many=True, help_text="Mistakes in its files.")
    trust = serializers.ChoiceField(
        [state.value for state in TrustState],
        help_text="Whether a person has decided about the folder's own configuration.",
    )
    data_dir = serializers.CharField(help_text="The folder with the workspace's stored choices.")


class ConfigurationDetail(Resource):
    """The configuration of a workspace."""

    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})
    serializer_class = ConfigurationSerializer

    def get(self, _: Request, workspace_id: str) -> Response:
        config: LoadedConfig = self.act(configs().newest_config_of, workspace_id)
        problems = [
            {"text": str(problem), "is_warning": problem.is_warning} for problem in config.problems
        ]
        return Response(
            {
                "config": config.public,
                "problems": problems,
                "trust": config.trust.state.value,
                "data_dir": config.data_dir,
            }
        )


class SkillSerializer(serializers.Serializer[Any]):
    """Instructions that the model reads when it needs them."""

    id = serializers.CharField(help_text="Its file, or an address for those of the server.")
    name = serializers.CharField(help_text="Its name.")
    description = serializers.CharField(help_text="When the model should read it.")
    label = serializers.CharField(  # type: ignore[assignment]  # a field of this name
        help_text="Its source and its name."
    )
    source = serializers.ChoiceField(  # type: ignore[assignment]  # a field of this name
        [source.value for source in SkillSource], help_text="Where it comes from."
    )
    user_invocable = serializers.BooleanField(help_text="Whether clients offer it as a command.")


class SkillContentSerializer(SkillSerializer):
    """A skill with its instructions."""

    content = serializers.CharField(help_text="The text of its SKILL.md.", trim_whitespace=False)


class SkillIdQuery(serializers.Serializer[Any]):
    id = serializers.CharField(max_length=PATH_LIMIT, help_text="The id from the list.")


class SkillList(Resource):
    """The skills that may be used in a workspace. It is one page."""

    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})
    serializer_class = SkillSerializer
    ordering = ("id",)

    def get(self, _: Request, workspace_id: str) -> Response:
        skills = self.act(skill_cache().skills_of, workspace_id, newest=True)
        return Response({"items": [_skill(skill) for skill in skills], "next": None})


class SkillContent(Resource):
    """One skill with its instructions."""

    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})
    serializer_class = SkillContentSerializer

    @extend_schema(parameters=[SkillIdQuery])
    def get(self, _: Request, workspace_id: str) -> Response:
        skill_id = self.query(SkillIdQuery)["id"]
        skills = self.act(skill_cache().skills_of, workspace_id, newest=True)
        skill = next((skill for skill in skills if skill.id == skill_id), None)
        if skill is None:
            raise SkillUnknown
        try:
            content = read_skill(skill)
        except InvalidSkill as invalid:
            raise SkillUnknown(f"the skill cannot be read: {invalid}") from None
        text = content.decode("utf-8", errors="replace")
        return Response(_skill(skill) | {"content": text})


def _skill(skill: Skill) -> dict[str, Any]:
    return {
        "id": skill.id,
        "name": skill.name,
        "description": skill.description,
        "label": skill.label,
        "source": skill.location.source.value,
        "user_invocable": skill.user_invocable,
    }
