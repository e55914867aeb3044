"""The login of one distant server: its tokens, and the way a person gets them.

The protocol's package speaks OAuth; this keeps what it learns, sealed, beyond
the process: tokens with the moment they end, our registration, and where tokens
are renewed. Without a person waiting nobody is asked and nothing is registered.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
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
from agents.tools.mcp.callback import Callback
from agents.tools.mcp.contract import Backing, McpFailed, NeedsLogin
from agents.tools.mcp.limits import Patience
from workspaces.log.errors import Refusal

CLIENT_NAME = "Crush"
_NOWHERE = "http://localhost/callback"  # where nobody logs in; never sent
_KEY_CHARS = 900
_LONG_AGO = 1.0
_MAX_ROUNDS = 3
_LEEWAY_SECONDS = 30.0  # a token is renewed so long before it ends


@dataclass(slots=True)
class _CachedLogin:
    tokens: dict[str, Any] | None = field(default=None, repr=False)
    expires_at: float | None = None
    client: dict[str, Any] | None = field(default=None, repr=False)
    metadata: dict[str, Any] | None = None
    resource: dict[str, Any] | None = None
    port: int = 0  # of the callback that the client was registered with


class Login:
    """Also the package's ``TokenStorage``."""

    def __init__(self, settings: McpSettings, backing: Backing, patience: Patience) -> None:
        self._settings = settings
        self._backing = backing
        self._patience = patience
        self._kept = _CachedLogin()
        self._callback: Callback | None = None
        self._rounds = 0  # how often this login has sent a person away
        self._tell: Callable[[str], Awaitable[None]] | None = None
        self._provider: OAuthClientProvider | None = None
        self.key = key_of(settings)
        self.changed_at = 0  # of what was loaded
        self.refusal = ""  # the server's, of a request that needs more rights than the login has

    @property
    def is_interactive(self) -> bool:
        return self._callback is not None

    @property
    def can_renew(self) -> bool:
        return bool((self._kept.tokens or {}).get("refresh_token"))

    @property
    def _metadata_url(self) -> str | None:
        """A configured client that is an address of its own description: nobody registers it."""
        url = self._settings.oauth_client_id
        is_address_of_one = not self._settings.oauth_client_secret
        return url if is_address_of_one and is_valid_client_metadata_url(url) else None

    @property
    def port(self) -> int:
        """Where the registered client expects the answer; 0 for anywhere."""
        return self._settings.oauth_callback_port or self._kept.port

    async def load(self) -> None:
        """What is kept, as other workspaces and processes have left it."""
        try:
            secret = await self._backing.load_secret(self.key)
            known = orjson.loads(secret.text) if secret is not None else {}
            self._kept = _CachedLogin(**known)
        except (Refusal, ValueError, TypeError):  # sealed by another key, or damaged
            self._kept, secret = _CachedLogin(), None
        self.changed_at = secret.changed_at if secret is not None else 0

    def begin(self, callback: Callback, tell: Callable[[str], Awaitable[None]]) -> None:
        """A person waits: from now on the login may be asked for. ``tell`` is given its address."""
        if self._kept.client is not None and callback.port != self._kept.port:
            self._kept.client = None  # registered with another address: anew
        self._kept.port = callback.port
        self._callback, self._tell = callback, tell
        self._rounds = 0

    def end(self) -> None:
        self._callback = self._tell = None

    def auth(self, *, renew: bool = False) -> OAuthClientProvider:
        """For one connection. ``renew``: the token at hand was refused, take a new one first."""
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
        # The package forgets them between two processes, and could then not renew.
        context, kept = provider.context, self._kept
        context.token_expiry_time = _LONG_AGO if renew else kept.expires_at
        try:
            if kept.metadata is not None:
                context.oauth_metadata = OAuthMetadata.model_validate(kept.metadata)
            if kept.resource is not None:
                context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(
                    kept.resource
                )
        except ValidationError:
            kept.metadata = kept.resource = None
        self._provider = provider
        return provider

    # -- as the package's storage

    async def get_tokens(self) -> OAuthToken | None:
        try:
            return OAuthToken.model_validate(self._kept.tokens) if self._kept.tokens else None
        except ValidationError:
            return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._kept.tokens = tokens.model_dump(mode="json", exclude_none=True)
        self._kept.expires_at = None
        if tokens.expires_in is not None:
            self._kept.expires_at = time.time() + max(0.0, tokens.expires_in - _LEEWAY_SECONDS)
        if self._provider is not None:
            context = self._provider.context
            self._kept.metadata = _dump(context.oauth_metadata) or self._kept.metadata
            self._kept.resource = _dump(context.protected_resource_metadata) or self._kept.resource
        await self._save()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        settings = self._settings
        if settings.oauth_client_id and self._metadata_url is None:
            address = self._callback.address if self._callback is not None else _NOWHERE
            return OAuthClientInformationFull(
                client_id=settings.oauth_client_id,
                client_secret=settings.oauth_client_secret or None,
                redirect_uris=[AnyUrl(address)],
                token_endpoint_auth_method=_method(settings, self._kept.metadata),
            )
        try:
            client = self._kept.client
            return OAuthClientInformationFull.model_validate(client) if client else None
        except ValidationError:
            return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._kept.client = client_info.model_dump(mode="json", exclude_none=True)
        await self._save()

    async def _save(self) -> None:
        kept = self._kept
        text = orjson.dumps(
            {
                "tokens": kept.tokens,
                "expires_at": kept.expires_at,
                "client": kept.client,
                "metadata": kept.metadata,
                "resource": kept.resource,
                "port": kept.port,
            }
        ).decode()
        self.changed_at = await self._backing.save_secret(self.key, text)

    # -- what the package asks of a person

    async def _redirect(self, url: str) -> None:
        if self._callback is None or self._tell is None:
            raise NeedsLogin
        if not is_address(url):
            raise McpFailed("The server names no address for the login.")
        self._rounds += 1
        if self._rounds > _MAX_ROUNDS:
            raise McpFailed("The server asks for a login again after each login.")
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
        await self._tell(url)

    async def _answer(self) -> AuthorizationCodeResult:
        if self._callback is None:
            raise NeedsLogin
        seconds = self._patience.auth_seconds
        try:
            async with asyncio.timeout(seconds):
                code, state, issuer = await self._callback.code()
        except TimeoutError:
            raise McpFailed(f"Nobody logged in within {seconds:g} seconds.") from None
        return AuthorizationCodeResult(code=code, state=state, iss=issuer)


def key_of(settings: McpSettings) -> str:
    """Tokens are only ever sent to the address and client they were given for."""
    parts = urlsplit(settings.url)
    given = f"{settings.url}\0{settings.oauth_client_id}".encode("utf-8", "surrogatepass")
    place = f"{parts.scheme}://{parts.hostname}:{parts.port or ''}{parts.path}"
    # The address itself may hold a secret in its query or its account.
    return f"{place[:_KEY_CHARS]}#{sha256(given).hexdigest()[:32]}"


def _dump(model: BaseModel | None) -> dict[str, Any] | None:
    return model.model_dump(mode="json", exclude_none=True) if model is not None else None


def _method(settings: McpSettings, metadata: dict[str, Any] | None) -> Any:
    """How a configured client shows its secret: as the server says, else in the header."""
    if not settings.oauth_client_secret:
        return "none"
    known = (metadata or {}).get("token_endpoint_auth_methods_supported") or []
    is_post = "client_secret_post" in known and "client_secret_basic" not in known
    return "client_secret_post" if is_post else "client_secret_basic"
