"""Reads what a run needs before its first step: models, prompt, tools, environment."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings as server_settings

from agents.config.cache import configs
from agents.config.settings import ModelChoice, ModelInfo, Settings
from agents.llm.contract import ModelRequest, Provider
from agents.llm.errors import ModelError, UnknownModel, UnusableModel
from agents.llm.providers import provider_for
from agents.models import RunKind
from agents.prompts.facts import PromptFacts, gather_facts
from agents.prompts.render import agent_prompt, fetch_prompt, main_prompt, summary_prompt
from agents.runs.rows import Claimed
from agents.runs.tool_servers.language_servers import languages_of, lsp_tools
from agents.runs.tool_servers.mcp_servers import late_servers, mcp_tools
from agents.runs.tool_servers.own_environment import server_env
from agents.skills.cache import skill_cache
from agents.skills.skill import Skill
from agents.states import CutRule
from agents.tools.contract import LanguageService, NoLanguages, Repetition, Todo, Tool
from agents.tools.registry import READ_ONLY, WEB_RESEARCH, WEB_RESEARCH_ONLY, available
from agents.turn.options import RunOptions
from agents.turn.transcript import TurnMessage
from agents.turn.window import fitted, is_nearly_full
from workspaces.log.parts import Role, Text

# The tools of a child run, which only reads.
_CHILDRENS: Mapping[str, tuple[str, ...]] = {
    RunKind.AGENT: READ_ONLY,
    RunKind.FETCH: WEB_RESEARCH,
}
# Earlier names of tools, which configurations may still contain.
_EARLIER_NAMES = {"diagnostics": "lsp_diagnostics", "references": "lsp_references"}


@dataclass(frozen=True, slots=True)
class Toolbox:
    tools: Mapping[str, Tool[Any]]
    late_servers: tuple[str, ...]  # MCP servers still starting, whose tools are missing


async def toolbox_of(workspace_id: str, kind: str, settings: Settings) -> Toolbox:
    """Returns the tools in a stable order, so that providers can cache the request's beginning."""
    brought = {**await lsp_tools(workspace_id)}
    late: tuple[str, ...] = ()
    if _has_mcp(kind, settings):
        brought |= await mcp_tools(workspace_id)
        late = late_servers(workspace_id)
    disabled = settings.disabled_tools | {
        _EARLIER_NAMES[name] for name in settings.disabled_tools & _EARLIER_NAMES.keys()
    }
    tools = {
        **available(disabled),
        **{name: tool for name, tool in brought.items() if name not in disabled},
    }
    names = _CHILDRENS.get(kind)
    if names is None:
        names = tuple(name for name in tools if name not in WEB_RESEARCH_ONLY)
    return Toolbox({name: tools[name] for name in names if name in tools}, late)


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
        """Returns a model request. ``max_tokens`` lowers the model's own limit for the reply."""
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
    late_servers: tuple[str, ...] = ()  # MCP servers still starting, whose tools are missing


# Changes a run's settings where the process overrides the workspace's files: models, keys, tools.
Adapt = Callable[[Claimed, Settings], Settings]


class FolderMissing(Exception):
    """The folder of a workspace is not found here: without it, the configuration is another one."""

    def __init__(self, path: str) -> None:
        self.sentence = (
            f"The folder {path} does not exist on {socket.gethostname()}, so nothing was started."
            " Mount or restore it, and send the prompt again."
        )
        super().__init__(self.sentence)


async def setup_of(claimed: Claimed, *, adapt: Adapt | None = None) -> RunSetup:
    """Returns a run's setup.

    Raises ``agents.llm.errors.ModelError`` if no model is available, and ``FolderMissing``.
    """
    workspace_id, path = claimed.workspace_id, claimed.path
    if not await asyncio.to_thread(os.path.isdir, path):
        raise FolderMissing(path)
    config = await configs().newest_config_of(workspace_id)
    given = await configs().env_of(workspace_id)
    env = given or server_env()
    settings = adapt(claimed, config.settings) if adapt is not None else config.settings
    choice = choice_for(settings, claimed.kind, claimed.options)
    working_dir = claimed.working_dir or path
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
    toolbox = await toolbox_of(workspace_id, claimed.kind, settings)
    return RunSetup(
        model=model,
        system=render(facts),
        tools=toolbox.tools,
        late_servers=toolbox.late_servers,
        settings=settings,
        env=env,
        working_dir=working_dir,
        data_dir=config.data_dir,
        languages=languages_of(workspace_id),
        skills=skills,
    )


def choice_for(settings: Settings, kind: str, options: RunOptions) -> ModelChoice:
    """Returns the model of a run. A prompt chooses that of its own turn, not that of web pages."""
    if kind == RunKind.FETCH:
        return settings.small
    choice = chosen_model(settings, options.model)
    return replace(choice, reasoning_effort=options.effort) if options.effort else choice


def chosen_model(settings: Settings, name: str) -> ModelChoice:
    """Returns the choice of "large", "small" or "provider/model"; without a name, the large one."""
    if name in {"", "large"}:
        return settings.large
    if name == "small":
        return settings.small
    provider, _, model = name.partition("/")
    for known in (settings.large, settings.small):  # with their parameters
        if (known.provider, known.model) == (provider, model) and not known.fault:
            return known
    return ModelChoice(provider, model)


async def small_model_of(workspace_id: str) -> Model:
    """Returns the small model of a workspace. Raises ``agents.llm.errors.ModelError``."""
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
    idle = server_settings.CRUSH_MODEL_SILENCE_SECONDS
    return Model(choice, info, provider_for(provider, env, idle_seconds=idle))


# A run that goes on after a restart has calls of MCP servers that have just begun to start.
CONTINUED_WAIT_SECONDS = 60.0


class SetupInUse:
    def __init__(self) -> None:
        self.setup: RunSetup | None = None
        self.fault = ""
        self._kind = ""
        self._workspace_id = ""

    async def read(
        self, claimed: Claimed, setup_of: Callable[[Claimed], Awaitable[RunSetup]]
    ) -> None:
        self._kind, self._workspace_id = claimed.kind, claimed.workspace_id
        try:
            self.setup = await setup_of(claimed)
        except (ModelError, FolderMissing) as error:
            self.fault = error.sentence

    async def take_late_tools(self) -> None:
        """Adds tools of MCP servers that have started since; called before each model request."""
        setup = self.setup
        if setup is None or not setup.late_servers:
            return
        if late_servers(self._workspace_id) != setup.late_servers:
            toolbox = await toolbox_of(self._workspace_id, self._kind, setup.settings)
            self.setup = replace(setup, tools=toolbox.tools, late_servers=toolbox.late_servers)

    async def wait_for_tools(self, names: Collection[str]) -> None:
        """Waits for the tools of a run that goes on, while their MCP servers start again."""
        ends_at = time.monotonic() + CONTINUED_WAIT_SECONDS
        while (setup := self.setup) is not None and setup.late_servers:
            if all(name in setup.tools for name in names) or time.monotonic() >= ends_at:
                return
            await asyncio.sleep(0.1)
            await self.take_late_tools()

    @property
    def late_servers(self) -> tuple[str, ...]:
        return self.setup.late_servers if self.setup is not None else ()

    @property
    def choice(self) -> ModelChoice | None:
        return self.setup.model.choice if self.setup is not None else None

    @property
    def parallel(self) -> frozenset[str]:
        """Returns the tools that only read, whose calls may run in parallel."""
        names = self.setup.tools if self.setup is not None else ()
        return frozenset(name for name in names if self.is_parallel(name))

    def is_parallel(self, name: str) -> bool:
        return self._repetition_of(name) is Repetition.PURE

    def is_repeatable(self, name: str) -> bool:
        """Whether a call of the tool runs again if its server stopped in the middle."""
        return self._repetition_of(name) is not Repetition.EFFECT

    def cut_rule(self, name: str) -> CutRule | None:
        """Returns what follows for a call of the tool that was cut; ``None``: it runs again."""
        if self.is_repeatable(name):
            return None
        return self.setup.settings.cut_rule(name) if self.setup is not None else CutRule.REPORT

    def _repetition_of(self, name: str) -> Repetition:
        tool = self.setup.tools.get(name) if self.setup is not None else None
        return Repetition.EFFECT if tool is None else tool.repetition

    def is_full(self, tokens: int) -> bool:
        """Whether a conversation of this size nearly fills the window, and summaries are on."""
        if self.setup is None or not self.setup.settings.auto_summarize:
            return False
        return is_nearly_full(tokens, self.setup.model.info.context_window)


LONGEST_WORDS = 8_000  # tokens
# The conversation's share of the window. The rest is for the prompt and the summary itself.
PART_OF_WINDOW = 0.8
PART_WHEN_EXHAUSTED = 0.5  # the estimate of its tokens was too low before
ASK = "Write the summary of this conversation now, as instructed."


def summary_request(
    setup: RunSetup,
    messages: Sequence[TurnMessage],
    todos: Sequence[Todo],
    *,
    session_id: str,
    was_exhausted: bool,
) -> ModelRequest:
    """Returns the request for a summary. The oldest parts of a long conversation are cut."""
    window = setup.model.info.context_window
    part = PART_WHEN_EXHAUSTED if was_exhausted else PART_OF_WINDOW
    kept = fitted(messages, tokens=int(window * part)) if window > 0 else tuple(messages)
    return setup.model.request(
        summary_prompt(todos),
        (*kept, TurnMessage("", Role.USER, (Text(ASK),))),
        {},
        session_id=session_id,
        working_dir=setup.working_dir,
        max_tokens=LONGEST_WORDS,
    )
