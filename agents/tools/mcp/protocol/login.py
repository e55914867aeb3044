"""The login of one remote server: its tokens, and the OAuth flow that obtains them.

The protocol's package implements OAuth. This module stores its results encrypted:
tokens with their expiry, the client registration, and the endpoints that renew tokens.
A login and a registration take place only while a person waits for them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.utils import is_valid_client_metadata_url
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from agents.config.http_values import is_address
from agents.config.settings import McpSettings
from agents.tools.mcp.browser_login import Callback, callback_server
from agents.tools.mcp.contract import Backing, McpFailed, NeedsLogin
from agents.tools.mcp.limits import McpTimeouts
from workspaces.log.errors import Refusal

CLIENT_NAME = "Crush"
_NOWHERE = "http://localhost/callback"  # a placeholder without a login; never sent
_KEY_CHARS = 900
_LONG_AGO = 1.0
_MAX_ROUNDS = 3
_LEEWAY_SECONDS = 30.0  # a token is renewed so long before it expires


@dataclass(slots=True)
class _CachedLogin:
    tokens: dict[str, Any] | None = field(default=None, repr=False)
    expires_at: float | None = None
    client: dict[str, Any] | None = field(default=None, repr=False)
    metadata: dict[str, Any] | None = None
    resource: dict[str, Any] | None = None
    port: int = 0  # of the callback URL in the client registration


class Login:
    """The tokens and the flow of one login; also the package's ``TokenStorage``."""

    def __init__(self, settings: McpSettings, backing: Backing, timeouts: McpTimeouts) -> None:
        self._settings = settings
        self._backing = backing
        self._timeouts = timeouts
        self._cached = _CachedLogin()
        self._callback: Callback | None = None
        self._rounds = 0  # how often this login has redirected a person
        self._show_url: Callable[[str], Awaitable[None]] | None = None
        self._provider: OAuthClientProvider | None = None
        self.key = key_of(settings)
        self.changed_at = 0  # of the loaded secret
        self.refusal = ""  # the server's error for a request that needs more rights

    @property
    def is_interactive(self) -> bool:
        return self._callback is not None

    @property
    def can_renew(self) -> bool:
        return bool((self._cached.tokens or {}).get("refresh_token"))

    @property
    def _metadata_url(self) -> str | None:
        """The configured client ID, if it is a URL of client metadata: it needs no registration."""
        url = self._settings.oauth_client_id
        is_address_of_one = not self._settings.oauth_client_secret
        return url if is_address_of_one and is_valid_client_metadata_url(url) else None

    @property
    def port(self) -> int:
        """The port of the callback of the registered client; 0 for any port."""
        return self._settings.oauth_callback_port or self._cached.port

    async def load(self) -> None:
        """Loads the stored login, which other workspaces and processes may have changed."""
        try:
            secret = await self._backing.load_secret(self.key)
            known = orjson.loads(secret.text) if secret is not None else {}
            self._cached = _CachedLogin(**known)
        except (Refusal, ValueError, TypeError):  # encrypted with another key, or damaged
            self._cached, secret = _CachedLogin(), None
        self.changed_at = secret.changed_at if secret is not None else 0

    async def open_callback(
        self, stack: AsyncExitStack, show_url: Callable[[str], Awaitable[None]]
    ) -> None:
        """Begins a login whose callback is served until the stack closes. Raises ``McpFailed``."""
        await self.load()
        try:
            callback = await stack.enter_async_context(callback_server(self.port))
        except McpFailed:
            if self._settings.oauth_callback_port or not self.port:
                raise
            # The registered port is in use; another port requires a new registration.
            callback = await stack.enter_async_context(callback_server(0))
        self.begin(callback, show_url)

    def begin(self, callback: Callback, show_url: Callable[[str], Awaitable[None]]) -> None:
        """Allows an interactive login. ``show_url`` receives the URL at which the person logs in."""
        if self._cached.client is not None and callback.port != self._cached.port:
            self._cached.client = None  # its registration names another port: register again
        self._cached.port = callback.port
        self._callback, self._show_url = callback, show_url
        self._rounds = 0

    def end(self) -> None:
        self._callback = self._show_url = None

    def auth(self, *, renew: bool = False) -> OAuthClientProvider:
        """Returns the OAuth provider for one connection.

        With ``renew``, the server has refused the current token, so it is renewed first.
        """
        address = self._callback.address if self._callback is not None else _NOWHERE
        provider = OAuthClientProvider(
            self._settings.url,
            OAuthClientMetadata(
                client_name=CLIENT_NAME,
                redirect_uris=[AnyUrl(address)],
                token_endpoint_auth_method="none",  # noqa: S106  the method of that name
            ),
            self,
            redirect_handler=self._redirect,
            callback_handler=self._answer,
            client_metadata_url=self._metadata_url,
        )
        # The package does not store these; without them it could not renew a token.
        context, cached = provider.context, self._cached
        context.token_expiry_time = _LONG_AGO if renew else cached.expires_at
        try:
            if cached.metadata is not None:
                context.oauth_metadata = OAuthMetadata.model_validate(cached.metadata)
            if cached.resource is not None:
                context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(
                    cached.resource
                )
        except ValidationError:
            cached.metadata = cached.resource = None
        self._provider = provider
        return provider

    # -- as the package's storage

    async def get_tokens(self) -> OAuthToken | None:
        try:
            return OAuthToken.model_validate(self._cached.tokens) if self._cached.tokens else None
        except ValidationError:
            return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._cached.tokens = tokens.model_dump(mode="json", exclude_none=True)
        self._cached.expires_at = None
        if tokens.expires_in is not None:
            self._cached.expires_at = time.time() + max(0.0, tokens.expires_in - _LEEWAY_SECONDS)
        if self._provider is not None:
            context = self._provider.context
            self._cached.metadata = _dump(context.oauth_metadata) or self._cached.metadata
            self._cached.resource = (
                _dump(context.protected_resource_metadata) or self._cached.resource
            )
        await self._save()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        settings = self._settings
        if settings.oauth_client_id and self._metadata_url is None:
            address = self._callback.address if self._callback is not None else _NOWHERE
            return OAuthClientInformationFull(
                client_id=settings.oauth_client_id,
                client_secret=settings.oauth_client_secret or None,
                redirect_uris=[AnyUrl(address)],
                token_endpoint_auth_method=_method(settings, self._cached.metadata),
            )
        try:
            client = self._cached.client
            return OAuthClientInformationFull.model_validate(client) if client else None
        except ValidationError:
            return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._cached.client = client_info.model_dump(mode="json", exclude_none=True)
        await self._save()

    async def _save(self) -> None:
        cached = self._cached
        text = orjson.dumps(
            {
                "tokens": cached.tokens,
                "expires_at": cached.expires_at,
                "client": cached.client,
                "metadata": cached.metadata,
                "resource": cached.resource,
                "port": cached.port,
            }
        ).decode()
        self.changed_at = await self._backing.save_secret(self.key, text)

    # -- the package's callbacks for an interactive login

    async def _redirect(self, url: str) -> None:
        if self._callback is None or self._show_url is None:
            raise NeedsLogin
        if not is_address(url):
            raise McpFailed("The server gave no valid URL for the login.")
        self._rounds += 1
        if self._rounds > _MAX_ROUNDS:
            raise McpFailed("The server requires another login after each login.")
        context = self._provider.context if self._provider is not None else None
        if (
            context is not None
            and context.client_info is not None
            and self._settings.oauth_client_id == context.client_info.client_id
            and self._metadata_url is None
        ):
            found = context.oauth_metadata
            metadata = found.model_dump(mode="json") if found is not None else None
            context.client_info.token_endpoint_auth_method = _method(self._settings, metadata)
        self._callback.expect(parse_qs(urlsplit(url).query).get("state", [""])[0])
        await self._show_url(url)

    async def _answer(self) -> AuthorizationCodeResult:
        if self._callback is None:
            raise NeedsLogin
        seconds = self._timeouts.login_seconds
        try:
            async with asyncio.timeout(seconds):
                code, state, issuer = await self._callback.code()
        except TimeoutError:
            raise McpFailed(f"No login within {seconds:g} seconds.") from None
        return AuthorizationCodeResult(code=code, state=state, iss=issuer)


def key_of(settings: McpSettings) -> str:
    """Returns the key under which tokens are stored.

    It contains the URL and the client, so that tokens go only to the server and client
    that they were issued for.
    """
    parts = urlsplit(settings.url)
    given = f"{settings.url}\0{settings.oauth_client_id}".encode("utf-8", "surrogatepass")
    place = f"{parts.scheme}://{parts.hostname}:{parts.port or ''}{parts.path}"
    # The URL may contain a secret in its query or its user part.
    return f"{place[:_KEY_CHARS]}#{sha256(given).hexdigest()[:32]}"


def _dump(model: BaseModel | None) -> dict[str, Any] | None:
    return model.model_dump(mode="json", exclude_none=True) if model is not None else None


def _method(settings: McpSettings, metadata: dict[str, Any] | None) -> Any:
    """Returns how a configured client sends its secret: as the server requires, or in a header."""
    if not settings.oauth_client_secret:
        return "none"
    known = (metadata or {}).get("token_endpoint_auth_methods_supported") or []
    is_post = "client_secret_post" in known and "client_secret_basic" not in known
    return "client_secret_post" if is_post else "client_secret_basic"
