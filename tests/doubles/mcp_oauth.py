"""A streamable-HTTP MCP server behind OAuth, both made with the protocol's own package.

`python mcp_oauth.py --port N [--lifetime S]`: registers whoever asks, lets everybody in at once (a test
plays the browser), gives tokens that last S seconds and can be renewed. `DELETE /tokens` takes all back;
`GET /counts` tells how often it registered, let in and renewed. With `--wider` the tool `fail` needs the
right "more", and with `--deny` nobody ever gets it.
"""

import argparse
import secrets
import time
from collections import Counter
from typing import Any

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.doubles.mcp_server import make

REGISTERED_CLIENT = OAuthClientInformationFull(
    client_id="configured-client",
    client_secret="configured-secret-value",
    redirect_uris=["http://localhost:1/callback"],
    scope="use",
    token_endpoint_auth_method="client_secret_basic",
)


class LetsAllIn(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    def __init__(self, lifetime: int) -> None:
        self.lifetime = lifetime
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.counts: Counter[str] = Counter()

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.counts["registered"] += 1
        wider = {"scope": "use more"}  # it may ask for what it was not registered with
        self.clients[client_info.client_id] = client_info.model_copy(update=wider)

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        self.counts["let_in"] += 1
        code = AuthorizationCode(
            code=secrets.token_urlsafe(16),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._give(client.client_id, authorization_code.scopes)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.counts["renewed"] += 1
        del self.refresh[refresh_token.token]
        return self._give(client.client_id, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.access.get(token)
        return found if found and (found.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)

    def _give(self, client_id: str, scopes: list[str]) -> OAuthToken:
        access = f"access-token-{secrets.token_urlsafe(16)}"
        refresh = f"refresh-token-{secrets.token_urlsafe(16)}"
        ends = int(time.time()) + self.lifetime
        self.access[access] = AccessToken(
            token=access, client_id=client_id, scopes=scopes, expires_at=ends
        )
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes)
        return OAuthToken(
            access_token=access,
            token_type="Bearer",
            expires_in=self.lifetime,
            refresh_token=refresh,
            scope=" ".join(scopes),
        )


class Wider:
    """ASGI: refuses calls of `fail` to who may not do "more", as RFC 6750 says."""

    def __init__(self, app: Any, provider: LetsAllIn, *, deny: bool) -> None:
        self._app = app
        self._provider = provider
        self._deny = deny

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != "/mcp":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await request.body()
        token = self._provider.access.get(request.headers.get("authorization", "")[7:])
        needs_more_scopes = b'"tools/call"' in body and b'"fail"' in body
        if token is not None and needs_more_scopes and (self._deny or "more" not in token.scopes):
            challenge = 'Bearer error="insufficient_scope", scope="more"'
            refusal = Response(status_code=403, headers={"WWW-Authenticate": challenge})
            await refusal(scope, receive, send)
            return
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Any:
            return parts.pop() if parts else await receive()

        await self._app(scope, again, send)


def main() -> None:
    parser = argparse.ArgumentParser(description="An MCP server behind OAuth, for tests.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--lifetime", type=int, default=3600)
    parser.add_argument("--callback", default="", help="of the configured client")
    parser.add_argument("--wider", action="store_true")
    parser.add_argument("--deny", action="store_true")
    options = parser.parse_args()
    url = f"http://127.0.0.1:{options.port}"
    provider = LetsAllIn(options.lifetime)
    if options.callback:
        client = REGISTERED_CLIENT.model_copy(update={"redirect_uris": [options.callback]})
        provider.clients[REGISTERED_CLIENT.client_id] = OAuthClientInformationFull.model_validate(
            client.model_dump(mode="json")
        )
    server = make(
        auth_server_provider=provider,
        auth=AuthSettings(
            issuer_url=url,
            resource_server_url=f"{url}/mcp",
            client_registration_options=ClientRegistrationOptions(
                enabled=True, valid_scopes=["use", "more"], default_scopes=["use"]
            ),
            required_scopes=["use"],
        ),
    )

    @server.custom_route("/tokens", methods=["DELETE"])
    async def take_back(request: Request) -> Response:
        provider.access.clear()
        if "refresh" in request.query_params:
            provider.refresh.clear()
        return Response(status_code=204)

    @server.custom_route("/counts", methods=["GET"])
    async def counts(request: Request) -> Response:
        return JSONResponse(dict(provider.counts))

    app = server.streamable_http_app()
    app = Wider(app, provider, deny=options.deny) if options.wider else app
    uvicorn.run(app, port=options.port, log_level="error")


if __name__ == "__main__":
    main()
