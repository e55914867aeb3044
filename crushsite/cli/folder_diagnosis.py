"""What ``doctor`` finds in a folder: asked of the running server, which alone knows its own
environment; without one, looked at here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseProblem

from agents.config.cache import FolderConfig, folder_config
from agents.config.providers.built_in import OFFLINE_ID
from agents.config.providers.kinds import BUILT_IN
from agents.config.trust.decision import CURE, TrustState
from agents.diagnosis import ASK_SECONDS, facts_of, unstored_folder
from agents.llm.shutdown import end_connections
from crushsite.cli.findings import Finding, fail, ok, warn
from crushsite.server_client import (
    RunningServer,
    ServerGone,
    ServerRefused,
    find_running_server,
)

PATH = "/api/diagnosis"
SERVER_SECONDS = ASK_SECONDS + 10
NOT_FOUND = 404
GOOD_SERVERS = {"connected", "ready", "starting", "unstarted", "stopped", "disabled"}


def folder_findings(path: str, *, asks_model: bool) -> Iterator[Finding]:
    if not Path(path).is_dir():
        yield fail("folder", f"{path} is not a folder")
        return
    server = find_running_server(settings.DATA_DIR)
    if server is None:
        yield from _report(_looked_at_here(path, asks_model=asks_model))
        return
    try:
        facts = _asked(server, path, asks_model=asks_model)
    except (ServerGone, ServerRefused) as error:
        yield fail("configuration", f"{server.url} cannot report on this folder: {error}")
    else:
        yield from _report(facts)


def _asked(server: RunningServer, path: str, *, asks_model: bool) -> dict[str, Any]:
    body = {"path": path, "asks_model": asks_model}
    facts: dict[str, Any] = server.call("POST", PATH, body, timeout=SERVER_SECONDS)
    return facts


def _looked_at_here(path: str, *, asks_model: bool) -> dict[str, Any]:
    try:
        folder = folder_config(path)
    except DatabaseProblem:
        folder = unstored_folder(path)  # nothing was stored yet, or another finding says why
    return asyncio.run(_facts_and_close(folder, asks_model=asks_model))


async def _facts_and_close(folder: FolderConfig, *, asks_model: bool) -> dict[str, Any]:
    try:
        return await facts_of(folder, asks_model=asks_model)
    finally:
        await end_connections()


def _report(facts: dict[str, Any]) -> Iterator[Finding]:
    for problem in facts["problems"]:
        yield (warn if problem["is_warning"] else fail)("configuration", problem["text"])
    if not facts["problems"]:
        yield ok("configuration", f"no problems in {facts['path']}")
    yield from _trust(facts["trust"])
    for size in ("large", "small"):
        yield _model(f"{size} model", facts["models"][size])
    providers = [one for one in facts["providers"] if one["type"] not in BUILT_IN]
    if providers:
        yield ok("providers", ", ".join(sorted(_provider(one) for one in providers)))
    for section in ("mcp", "lsp"):
        for server in facts.get(section, ()):
            said = f"{server['state']}{': ' if server['error'] else ''}{server['error']}"
            is_good = server["state"] in GOOD_SERVERS
            yield (ok if is_good else warn)(f"{section} {server['name']}", said)
    yield from _request(facts.get("request"))


def _trust(state: str) -> Iterator[Finding]:
    match TrustState(state):
        case TrustState.TRUSTED:
            yield ok("trust", "the folder's own configuration may act")
        case TrustState.OPEN:
            yield warn("trust", f"the folder's own configuration waits for an answer: {CURE}")
        case TrustState.DENIED:
            yield warn("trust", "the folder's own configuration may not act (`crush-server trust`)")
        case TrustState.UNNEEDED:
            return


def _model(what: str, choice: dict[str, str]) -> Finding:
    if choice["fault"]:
        return fail(what, choice["fault"])
    if choice["provider"] == OFFLINE_ID:
        return warn(what, "the built-in offline one: no provider is configured for this folder")
    return ok(what, f"{choice['model']} of {choice['provider']}")


def _provider(provider: dict[str, Any]) -> str:
    return f"{provider['id']} ({'with a key' if provider['has_key'] else 'without a key'})"


def _request(request: dict[str, Any] | None) -> Iterator[Finding]:
    if request is None or not request["asked"]:
        return
    if request["error"]:
        yield fail("request", request["error"])
    else:
        yield ok("request", f"the large model answered in {request['seconds']:.1f} s")
