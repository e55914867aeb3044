"""Collects the facts that ``doctor`` reports about a folder, and checks whether its model answers.

It uses the server's environment, or the one that the folder's clients sent. It reports
whether keys exist, never their values. It changes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

from django.conf import settings as server_settings

from agents.config.cache import FolderConfig, configs, folder_config
from agents.config.load import load_config
from agents.config.mask import masked_address
from agents.config.providers.kinds import LOCAL_KIND, OFFLINE_KIND
from agents.config.settings import ModelChoice, Settings
from agents.config.trust.decision import TrustAnswers, TrustMode
from agents.llm.errors import ModelError
from agents.models import LanguageServer, McpServer
from agents.runs.setup import model_for
from agents.runs.tool_servers.own_environment import server_env
from agents.tools.lsp.states import LanguageServerStatus
from agents.turn.transcript import TurnMessage
from workspaces.log.parts import Role, Text
from workspaces.log.reader import read

REQUEST_SECONDS = 20.0
_MAX_TOKENS = 16
_PROMPT = "Answer with the one word: ok"


async def diagnose_folder(path: str, *, asks_model: bool) -> dict[str, Any]:
    """Returns the facts of a resolved ``path``. Mistakes in the configuration raise nothing."""
    folder = await read(folder_config, path)
    servers: dict[str, Any] = {}
    if folder.workspace_id:
        # The configuration of its runs: instead of a broken file, its last valid content counts.
        config = await configs().newest_config_of(folder.workspace_id)
        folder = replace(folder, config=config)
        servers = await read(_servers, folder.workspace_id)
    return await facts_of(folder, asks_model=asks_model) | servers


def unstored_folder(path: str) -> FolderConfig:
    """Returns a folder's configuration without a database, so without stored answers.

    Synchronous.
    """
    answers = TrustAnswers(TrustMode(server_settings.CRUSH_TRUST))
    return FolderConfig(load_config(path, env={}, answers=answers), {}, "")


async def facts_of(folder: FolderConfig, *, asks_model: bool) -> dict[str, Any]:
    facts = folder_facts(folder)
    if asks_model:
        facts["request"] = await _request(folder.config.settings, folder.env or server_env())
    return facts


def folder_facts(folder: FolderConfig) -> dict[str, Any]:
    config = folder.config
    settings = config.settings
    return {
        "path": config.path,
        "workspace_id": folder.workspace_id,
        "models": {"large": _shown(settings.large), "small": _shown(settings.small)},
        "providers": [
            {
                "id": provider.id,
                "type": provider.kind,
                "base_url": masked_address(provider.base_url),
                "has_key": bool(provider.api_key),
            }
            for provider in settings.providers.values()
        ],
        "problems": [
            {"text": str(problem), "is_warning": problem.is_warning} for problem in config.problems
        ],
        "trust": config.trust.state.value,
    }


def _shown(choice: ModelChoice) -> dict[str, str]:
    return {"provider": choice.provider, "model": choice.model, "fault": choice.fault}


def _servers(workspace_id: str) -> dict[str, Any]:
    """Returns the states of an open workspace's tool servers, as last written."""
    mcp = McpServer.objects.filter(workspace_id=workspace_id).order_by("name")
    lsp = LanguageServer.objects.filter(workspace_id=workspace_id).order_by("name")
    return {
        "mcp": [{"name": row.name, "state": row.state, "error": row.error} for row in mcp],
        "lsp": [
            {
                "name": row.name,
                "state": LanguageServerStatus(row.state).name.lower(),
                "error": row.error,
            }
            for row in lsp
        ],
    }


async def _request(settings: Settings, env: Mapping[str, str]) -> dict[str, Any]:
    """Sends one small request without retries, and reads only the beginning of the answer."""
    choice = settings.large
    provider = settings.providers.get(choice.provider)
    if choice.fault or provider is None or provider.kind in {OFFLINE_KIND, LOCAL_KIND}:
        return {"asked": False, "error": ""}
    started = time.monotonic()
    error = ""
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            await _first_events(settings, choice, env)
    except ModelError as failure:
        error = failure.sentence
    except TimeoutError:
        error = f"{provider.name} did not answer within {REQUEST_SECONDS:g} s."
    return {"asked": True, "error": error, "seconds": round(time.monotonic() - started, 2)}


async def _first_events(settings: Settings, choice: ModelChoice, env: Mapping[str, str]) -> None:
    model = model_for(settings, ModelChoice(choice.provider, choice.model), env)
    message = TurnMessage("", Role.USER, (Text(_PROMPT),))
    request = model.request(
        "", (message,), {}, session_id="", working_dir="", max_tokens=_MAX_TOKENS
    )
    async with aclosing(cast("Any", model.provider.stream(request))) as batches:
        async for _ in batches:
            return
