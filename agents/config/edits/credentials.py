"""Checks whether a new key makes its provider usable, and renews OAuth tokens.

After it has sent a key, a client expects the provider in the configuration; if the provider is not
usable, the client would request the key again, forever. An OAuth token is renewed (RFC 6749,
section 6) at the ``token_url`` of the stored token, and replaces it. Tokens are secrets: no error
and no log line contains anything that was sent or received.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import orjson

from agents.config.cache import configs
from agents.config.crushrc.programs import LastTrees
from agents.config.edits.changes import StoredPlace, change_stored
from agents.config.edits.choices import StoredScope, set_provider_key, stored_token
from agents.config.edits.file import NoToken, ProviderRefused, RefreshRefused
from agents.config.expand import variables
from agents.config.http_values import is_address
from agents.config.problem import Problem
from agents.config.providers.catalogue import UNSUPPORTED
from agents.config.providers.discovery import Discovery
from agents.config.providers.resolve import resolve_provider
from agents.config.read_files import merged_tree
from workspaces.access import Actor
from workspaces.log.reader import read
from workspaces.queries.workspaces import require_open

_ANY_KEY = "any-key"


def require_usable(
    provider_id: str,
    *,
    path: str,
    data_dir: str,
    env: Mapping[str, str],
    ran: LastTrees | None = None,
    server_env: Mapping[str, str] | None = None,
) -> None:
    """Raises ``ProviderRefused`` with the missing settings. Reads files."""
    server = os.environ if server_env is None else server_env
    tree = merged_tree(path, data_dir=data_dir, ran=ran, server_env=server)
    entry = (tree.get("providers") or {}).get(provider_id) or {}
    if provider_id in UNSUPPORTED and not entry.get("base_url"):
        raise ProviderRefused(UNSUPPORTED[provider_id])
    discovery = Discovery(variables(env, server), uses_ollama=False)
    alone = bool((tree.get("options") or {}).get("disable_default_providers"))
    known = None if alone else discovery.known(provider_id)
    if known is None and not entry.get("base_url"):
        raise ProviderRefused(
            f"The provider {provider_id} is not known here. Give it a type, a base_url and models"
            " in crush.json first."
        )
    problems: list[Problem] = []
    resolved = resolve_provider(
        provider_id,
        {**entry, "api_key": _ANY_KEY, "disable": False},
        known=known,
        needs_models=False,
        lookup=discovery.lookup,
        problems=problems,
    )
    if resolved is None:
        reasons = "; ".join(f"{problem.key} {problem.message}" for problem in problems)
        name = known.name if known is not None else provider_id
        raise ProviderRefused(f"A key alone does not make {name} usable: {reasons}.")


SECONDS = 20.0
_NOT_RENEWABLE = "the provider has no OAuth token that can be renewed: log in again"
ANSWER_LIMIT = 64 << 10
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


async def refresh_token(
    workspace_id: str, scope: StoredScope, provider_id: str, *, actor: Actor | None = None
) -> None:
    """Renews and stores an OAuth token.

    Raises ``WorkspaceUnknown``, ``NoToken``, ``RefreshRefused`` and the errors of storing.
    """
    await read(require_open, workspace_id)
    data_dir = (await configs().config_of(workspace_id)).data_dir
    stored = partial(stored_token, scope, provider_id, data_dir=data_dir)
    before = await asyncio.to_thread(stored)
    # A refresh token is often valid for one use: a second caller finds the new token here.
    async with configs().refreshing:
        token = await asyncio.to_thread(stored)
        if token is None or not _text(token, "refresh_token"):
            raise NoToken(_NOT_RENEWABLE)
        if token != before:
            return
        renewed = token | _renewed(await _post(_token_url(token), _request(token)))

        def change(place: StoredPlace) -> None:
            set_provider_key(
                scope, provider_id, kind="oauth", api_key=renewed, data_dir=place.data_dir
            )

        what = f"token of {provider_id}"
        await change_stored(workspace_id, scope, change, what=what, actor=actor)


def _token_url(token: Mapping[str, Any]) -> str:
    url = _text(token, "token_url")
    if not is_address(url):
        raise NoToken(_NOT_RENEWABLE)
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise NoToken("the token's token_url must be an https:// address")
    return url


def _request(token: Mapping[str, Any]) -> dict[str, str]:
    named = ("refresh_token", "client_id", "client_secret", "scope")
    given = {name: _text(token, name) for name in named if _text(token, name)}
    return {"grant_type": "refresh_token"} | given


async def _post(url: str, fields: Mapping[str, str]) -> Mapping[str, Any]:
    import aiohttp  # noqa: PLC0415  a server's start must not wait for it

    timeout = aiohttp.ClientTimeout(total=SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            # A redirect would take the token to another address.
            session.post(url, data=fields, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise RefreshRefused(
                    f"the provider refused to renew the token (status {answer.status}): log in again"
                )
            body = await answer.content.read(ANSWER_LIMIT)
    except (aiohttp.ClientError, TimeoutError, ValueError):
        raise RefreshRefused(
            "the provider could not be reached to renew the token: try again later"
        ) from None
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict):
        raise RefreshRefused("the provider's answer to the renewal is not a JSON object")
    return parsed


def _renewed(answer: Mapping[str, Any]) -> dict[str, Any]:
    access = _text(answer, "access_token")
    if not access:
        raise RefreshRefused("the provider's answer to the renewal has no token")
    renewed: dict[str, Any] = {"access_token": access}
    if _text(answer, "refresh_token"):
        renewed["refresh_token"] = answer["refresh_token"]
    seconds = answer.get("expires_in")
    if type(seconds) is int and 0 < seconds < 1 << 31:
        renewed |= {"expires_in": seconds, "expires_at": int(time.time()) + seconds}
    return renewed


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""
