"""Reads what a run needs before its first step: models, prompt, tools, environment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from django.conf import settings as server_settings

from agents.config.cache import configs
from agents.config.settings import ModelChoice, ModelInfo, Settings
from agents.llm.contract import ModelRequest, Provider
from agents.llm.errors import ModelError, UnknownModel, UnusableModel
from agents.llm.providers import provider_for
from agents.models import RunKind
from agents.prompts.facts import PromptFacts
from agents.prompts.git import gather_facts
from agents.prompts.main import agent_prompt, fetch_prompt, main_prompt
from agents.runs.rows import Claimed
from agents.runs.tool_servers.language_servers import languages_of, lsp_tools
from agents.runs.tool_servers.mcp_servers import late_servers, mcp_tools
from agents.runs.tool_servers.own_environment import server_env
from agents.skills.cache import skill_cache
from agents.skills.skill import Skill
from agents.tools.contract import LanguageService, NoLanguages, Tool
from agents.tools.registry import READ_ONLY, available
from agents.turn.transcript import TurnMessage
from agents.turn.window import is_nearly_full

# What a child run may use: it only reads.
_CHILDRENS: Mapping[str, tuple[str, ...]] = {
    RunKind.AGENT: READ_ONLY,
    RunKind.FETCH: ("web_search", "web_fetch", "glob", "grep", "sourcegraph", "view"),
}
# Configuration that was written for the earlier names still means these tools.
_EARLIER_NAMES = {"diagnostics": "lsp_diagnostics", "references": "lsp_references"}
# Only for those who read the web.
_FETCH_ONLY = frozenset({"web_search", "web_fetch"})


async def toolbox_of(workspace_id: str, kind: str, settings: Settings) -> Mapping[str, Tool[Any]]:
    """In a stable order, so that providers can keep the request's beginning cached."""
    brought = {**await lsp_tools(workspace_id)}
    if _has_mcp(kind, settings):
        brought |= await mcp_tools(workspace_id)
    disabled = settings.disabled_tools | {
        _EARLIER_NAMES[name] for name in settings.disabled_tools & _EARLIER_NAMES.keys()
    }
    tools = {
        **available(disabled),
        **{name: tool for name, tool in brought.items() if name not in disabled},
    }
    names = _CHILDRENS.get(kind)
    if names is not None:
        return {name: tools[name] for name in names if name in tools}
    return {name: tool for name, tool in tools.items() if name not in _FETCH_ONLY}


def late_servers_of(workspace_id: str, kind: str, settings: Settings) -> tuple[str, ...]:
    """The MCP servers whose tools the toolbox lacks because they still start."""
    return late_servers(workspace_id) if _has_mcp(kind, settings) else ()


def _has_mcp(kind: str, settings: Settings) -> bool:
    return kind not in _CHILDRENS and bool(settings.mcp)  # most workspaces have none


_PROMPTS: Mapping[str, Callable[[PromptFacts], str]] = {
    RunKind.AGENT: agent_prompt,
    RunKind.FETCH: fetch_prompt,
}


@dataclass(frozen=True, slots=True)
class Model:
    choice: ModelChoice
    info: ModelInfo
    provider: Provider = field(repr=False)

    def request(
        self,
        system: str,
        messages: tuple[TurnMessage, ...],
        tools: Mapping[str, Tool[Any]],
        *,
        session_id: str,
        working_dir: str,
        max_tokens: int = 0,
        memo: dict[Hashable, Any] | None = None,
    ) -> ModelRequest:
        """``max_tokens``: fewer than the model would give."""
        most = self.choice.max_tokens or self.info.default_max_tokens
        return ModelRequest(
            model=self.info,
            system=system,
            messages=messages,
            tools=tuple(tool.spec for tool in tools.values()),
            max_tokens=min(most, max_tokens) if max_tokens else most,
            temperature=self.choice.temperature,
            top_p=self.choice.top_p,
            think=self.choice.think,
            reasoning_effort=self.choice.reasoning_effort,
            session_id=session_id,
            working_dir=working_dir,
            memo={} if memo is None else memo,
        )


@dataclass(frozen=True, slots=True)
class RunSetup:
    model: Model
    system: str = field(repr=False)
    tools: Mapping[str, Tool[Any]]
    settings: Settings = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    working_dir: str
    data_dir: str
    languages: LanguageService = field(default_factory=NoLanguages)
    skills: tuple[Skill, ...] = ()
    late_servers: tuple[str, ...] = ()  # MCP servers that still start: their tools are missing


# What a process may know better than a workspace's files: models, keys, tools left out.
Adapt = Callable[[Claimed, Settings], Settings]


async def brief_of(claimed: Claimed, *, adapt: Adapt | None = None) -> RunSetup:
    """Raises ``agents.llm.errors.ModelError`` when no model can be had."""
    workspace_id, path = claimed.workspace_id, claimed.path
    config = await configs().newest_config_of(workspace_id)
    given = await configs().env_of(workspace_id)
    env = given or server_env()
    settings = adapt(claimed, config.settings) if adapt is not None else config.settings
    choice = settings.small if claimed.kind == RunKind.FETCH else settings.large
    working_dir = orjson.loads(claimed.errand).get("working_dir") or path
    model = model_for(settings, choice, env)
    skills = await skill_cache().skills_of(workspace_id)
    facts = await gather_facts(
        settings,
        workspace=path,
        working_dir=working_dir,
        session_id=claimed.session_id,
        env=env,
        skills=skills,
        model_name=model.info.name,
        prefix=settings.providers[choice.provider].prompt_prefix,
    )
    render = _PROMPTS.get(claimed.kind, main_prompt)
    tools = await toolbox_of(workspace_id, claimed.kind, settings)
    return RunSetup(
        model=model,
        system=render(facts),
        tools=tools,
        late_servers=late_servers_of(workspace_id, claimed.kind, settings),
        settings=settings,
        env=env,
        working_dir=working_dir,
        data_dir=config.data_dir,
        languages=languages_of(workspace_id),
        skills=skills,
    )


async def small_model_of(workspace_id: str) -> Model:
    """For titles and summaries. Raises ``agents.llm.errors.ModelError``."""
    settings = (await configs().config_of(workspace_id)).settings
    given = await configs().env_of(workspace_id)
    return model_for(settings, settings.small, given or server_env())


def model_for(settings: Settings, choice: ModelChoice, env: Mapping[str, str]) -> Model:
    if choice.fault:
        raise UnusableModel(choice.fault)
    provider = settings.providers.get(choice.provider)
    info = provider.model(choice.model) if provider is not None else None
    if provider is None or info is None:
        raise UnknownModel(
            f"The model '{choice.model}' of provider '{choice.provider}' is not configured; "
            "choose one that is listed under providers in crush.json."
        )
    silence = server_settings.CRUSH_MODEL_SILENCE_SECONDS
    return Model(choice, info, provider_for(provider, env, silence_seconds=silence))


class SetupInUse:
    def __init__(self) -> None:
        self.brief: RunSetup | None = None
        self.fault = ""

    async def read(
        self, claimed: Claimed, brief_of: Callable[[Claimed], Awaitable[RunSetup]]
    ) -> None:
        try:
            self.brief = await brief_of(claimed)
        except ModelError as error:
            self.fault = error.sentence

    async def take_late_tools(self, claimed: Claimed) -> None:
        """Before each request of the model: tools of servers that were late join now."""
        brief = self.brief
        if brief is None or not brief.late_servers:
            return
        late = late_servers_of(claimed.workspace_id, claimed.kind, brief.settings)
        if late != brief.late_servers:
            tools = await toolbox_of(claimed.workspace_id, claimed.kind, brief.settings)
            self.brief = replace(brief, tools=tools, late_servers=late)

    @property
    def late_servers(self) -> tuple[str, ...]:
        return self.brief.late_servers if self.brief is not None else ()

    @property
    def choice(self) -> ModelChoice | None:
        return self.brief.model.choice if self.brief is not None else None

    @property
    def parallel(self) -> frozenset[str]:
        """The tools that only read: their calls may run beside each other."""
        tools = self.brief.tools if self.brief is not None else {}
        return frozenset(name for name, tool in tools.items() if tool.parallel)

    def is_parallel(self, name: str) -> bool:
        tool = self.brief.tools.get(name) if self.brief is not None else None
        return tool is not None and tool.parallel

    def is_full(self, tokens: int) -> bool:
        """Whether a conversation of this size nearly fills the window, and a summary may help."""
        if self.brief is None or not self.brief.settings.auto_summarize:
            return False
        return is_nearly_full(tokens, self.brief.model.info.context_window)
