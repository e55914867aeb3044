"""Endpoints for a workspace's agent: its state, its model, and prompts to it."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponse

from agents.api.prompts import PromptForm, prompt_of, queue_limits
from agents.config.cache import configs
from agents.config.load import LoadedConfig
from agents.config.providers.catalogue import known_providers
from agents.config.providers.models import shown_model
from agents.config.public import shown_choice
from agents.config.settings import ModelChoice
from agents.runs.accept import accept
from agents.runs.queries import busy_sessions
from workspaces.access import Right
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import Flag
from workspaces.log.reader import read
from workspaces.queries.workspaces import require_open


class AgentView(ApiView):
    rights: ClassVar = {"get": Right.READ, "post": Right.PROMPT}
    folder_methods: ClassVar = frozenset({"get"})

    async def get(self, workspace_id: str) -> HttpResponse:
        """Returns the agent's state.

        Clients poll it many times a second, so it takes one hop and three indexed reads.
        """
        client_id = self.connection.client_id
        busy = await read(_busy_sessions, workspace_id, client_id)
        config = configs().known(workspace_id) or await configs().config_of(workspace_id)
        answer = {"is_busy": bool(busy), "is_ready": True} | _model(config)
        return json_answer(answer | ({"busy_sessions": busy} if busy else {}))

    async def post(self, workspace_id: str) -> HttpResponse:
        """Accepts a prompt and answers when it is stored, without waiting for its run."""
        prompt = prompt_of(await self.fields(PromptForm))
        await accept(
            workspace_id,
            prompt,
            limits=queue_limits(),
            client_id=self.connection.client_id,
            actor=await self.caller.sender(self.actor),
        )
        return empty_answer(status=202)


class InitForm(Form):
    interactive = Flag(default=False)


class InitView(ApiView):
    rights: ClassVar = {"post": Right.PROMPT}

    async def post(self, workspace_id: str) -> HttpResponse:
        """Does nothing: an agent is ready as soon as its workspace is open."""
        await self.fields(InitForm)
        await read(require_open, workspace_id)
        return empty_answer()


class UpdateView(ApiView):
    rights: ClassVar = {"post": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"post"})

    async def post(self, workspace_id: str) -> HttpResponse:
        """Makes the next turn load the configuration again."""
        await read(require_open, workspace_id)
        configs().forget(workspace_id)
        return empty_answer()


class DefaultSmallModelView(ApiView):
    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})

    async def get(self, workspace_id: str) -> HttpResponse:
        """Returns a provider's small model, or its large model if it has no small one."""
        provider_id = self.query("provider_id")
        await read(require_open, workspace_id)
        config = await configs().config_of(workspace_id)
        return json_answer(_default_small(config, provider_id))


def _busy_sessions(workspace_id: str, client_id: str) -> list[dict[str, str]]:
    require_open(workspace_id)
    return busy_sessions(workspace_id, client_id)


def _model(config: LoadedConfig) -> dict[str, Any]:
    choice = config.settings.large
    provider = config.settings.providers.get(choice.provider)
    model = provider.model(choice.model) if provider is not None else None
    return {
        "model": shown_model(model) if model is not None else {},
        "model_cfg": shown_choice(choice),
    }


def _default_small(config: LoadedConfig, provider_id: str) -> dict[str, Any]:
    known = known_providers().get(provider_id)
    chosen = config.settings.large
    if known is None or not known.small:
        model = config.public["models"].get("large")
        return dict(model) if model else shown_choice(chosen)
    limit = next((m.default_max_tokens for m in known.models if m.id == known.small), 0)
    return shown_choice(ModelChoice(provider_id, known.small, max_tokens=limit))
