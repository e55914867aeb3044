"""A workspace's configuration as typed values, expanded and ready to use.

These values are never sent to a client and never logged, because they contain expanded keys.
``agents.config.public`` makes the configuration for clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.states import CutRule


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The facts about a model, for limits, prices, and clients' pickers."""

    id: str
    name: str
    context_window: int = 128_000
    default_max_tokens: int = 8_192
    can_reason: bool = False
    supports_attachments: bool = False
    cost_per_1m_in: float = 0.0
    cost_per_1m_out: float = 0.0
    cost_per_1m_in_cached: float = 0.0  # writing the cache
    cost_per_1m_out_cached: float = 0.0  # reading the cache
    reasoning_levels: tuple[str, ...] = ()  # empty: reasoning is only switched on and off
    default_reasoning_effort: str = ""


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    id: str
    name: str
    kind: str  # the ``type`` of the file: openai, openai-compat, anthropic, offline, …
    base_url: str = field(repr=False)  # it may contain an account
    api_key: str = field(default="", repr=False)
    extra_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra_body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    models: tuple[ModelInfo, ...] = ()
    prompt_prefix: str = field(default="", repr=False)  # before every system prompt

    def model(self, model_id: str) -> ModelInfo | None:
        return next((model for model in self.models if model.id == model_id), None)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """``models.large`` or ``models.small``: which model, with which parameters."""

    provider: str
    model: str
    max_tokens: int = 0  # 0: the model's own default
    think: bool = False
    reasoning_effort: str = ""
    temperature: float | None = None
    top_p: float | None = None
    # Why the configured model cannot be used, and what to do. The names above are then
    # those of the built-in model, which must not answer in its place.
    fault: str = ""


@dataclass(frozen=True, slots=True)
class McpSettings:
    """One server of ``mcp``: a command on stdio, or a URL."""

    name: str
    kind: str  # stdio, http, sse
    command: str = field(default="", repr=False)
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # over the workspace's own
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_seconds: float = 15.0
    is_disabled: bool = False
    # The reason why it cannot be started, without values. Such a server is disabled too.
    fault: str = ""
    enabled_tools: frozenset[str] = frozenset()  # empty: all
    disabled_tools: frozenset[str] = frozenset()
    oauth: bool | None = None  # None: only if the server requires it
    oauth_client_id: str = ""
    oauth_client_secret: str = field(default="", repr=False)
    oauth_callback_port: int = 0


@dataclass(frozen=True, slots=True)
class LspSettings:
    """One server of ``lsp``. Without a command it disables or configures a known server."""

    name: str
    command: str = field(default="", repr=False)
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    filetypes: tuple[str, ...] = ()  # extensions without a dot, or language names
    root_markers: tuple[str, ...] = ()
    init_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    timeout_seconds: float = 30.0
    is_disabled: bool = False
    fault: str = ""  # as in ``McpSettings``


@dataclass(frozen=True, slots=True)
class HookSettings:
    """A command that runs before a tool call and may deny it."""

    name: str
    matcher: str  # a regular expression on the tool's name; empty: every tool
    command: str = field(repr=False)
    timeout_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class FleetRole:
    """A role of sub-agents, with its model and limits."""

    name: str
    description: str = ""
    executor: str = "crush"  # our own turn; a child may support others
    endpoint: str = field(default="", repr=False)  # the address of a remote child
    token: str = field(default="", repr=False)
    found_role: str = ""  # use a running child with this role in its record
    provider: str = ""  # empty: the workspace's large model
    model: str = ""
    disabled_tools: tuple[str, ...] = ()
    wall_clock_seconds: float = 1_800.0
    idle_seconds: float = 300.0
    most_steps: int = 200
    depth: int = 1  # the levels of nested sub-agents, including this one
    is_disabled: bool = False
    fault: str = ""  # why it cannot be used


@dataclass(frozen=True, slots=True)
class Attribution:
    """How commits and pull requests mention the model."""

    trailer_style: str = "assisted-by"  # none, co-authored-by, assisted-by
    generated_with: bool = True


@dataclass(frozen=True, slots=True)
class Settings:
    providers: Mapping[str, ProviderSettings]
    large: ModelChoice
    small: ModelChoice
    allowed_tools: frozenset[str] = frozenset()  # "tool" or "tool:action"
    cut_rules: Mapping[str, CutRule] = field(default_factory=dict)  # by tool; "*": the others
    disabled_tools: frozenset[str] = frozenset()
    context_paths: tuple[str, ...] = ()
    auto_summarize: bool = True
    global_context_paths: tuple[str, ...] = ()  # the user's own; absolute
    initialize_as: str = "AGENTS.md"  # the file that an init prompt writes
    mcp: Mapping[str, McpSettings] = field(default_factory=dict)
    lsp: Mapping[str, LspSettings] = field(default_factory=dict)
    auto_lsp: bool = True  # start known servers that are installed
    runs_project_code: bool = False  # start also servers that run code of the project
    trusted_digest: str = ""  # the digest of the folder's trusted powers; empty if not trusted
    pre_tool_hooks: tuple[HookSettings, ...] = ()
    attribution: Attribution = field(default_factory=Attribution)
    skills_paths: tuple[str, ...] = ()  # absolute, the user's and the project's
    disabled_skills: frozenset[str] = frozenset()
    # Private addresses that web tools may reach: host, host:port or CIDR; "*" is all.
    web_allowed_hosts: tuple[str, ...] = ()  # ``tools.web.allowed_private_hosts``
    fleet: Mapping[str, FleetRole] = field(default_factory=dict)
    agent_role: str = ""  # the role of the agent tool's sub-agents

    def cut_rule(self, tool: str) -> CutRule:
        """Returns what follows for a call of the tool that was cut and may have had effects."""
        return self.cut_rules.get(tool) or self.cut_rules.get("*") or CutRule.REPORT
