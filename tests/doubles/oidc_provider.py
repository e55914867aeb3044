"""A small provider of OpenID Connect, which signs in the person that the test chooses."""

import base64
import hashlib
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CLIENT_ID = "crush"
SECRET = "the-secret-of-the-client"
KEY_ID = "key-1"


@dataclass
class OidcProvider:
    """Checks what a careful provider checks: client, secret, redirect, code and PKCE."""

    person: dict[str, Any] = field(
        default_factory=lambda: {"sub": "1", "email": "ann@example.com", "email_verified": True}
    )
    url: str = ""
    problems: list[str] = field(default_factory=list)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)
    _tokens: set[str] = field(default_factory=set)
    _key: rsa.RSAPrivateKey = field(
        default_factory=lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._configuration)
        app.router.add_get("/authorize", self._authorize)
        app.router.add_post("/token", self._token)
        app.router.add_get("/userinfo", self._userinfo)
        app.router.add_get("/keys", self._keys)
        return app

    async def _configuration(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "userinfo_endpoint": f"{self.url}/userinfo",
                "jwks_uri": f"{self.url}/keys",
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
            }
        )

    async def _authorize(self, request: web.Request) -> web.Response:
        """A page of another site: the person follows its link back."""
        query = dict(request.query)
        self._expect(query.get("client_id") == CLIENT_ID, "client_id")
        self._expect(query.get("response_type") == "code", "response_type")
        self._expect("openid" in query.get("scope", "").split(), "scope")
        self._expect(query.get("code_challenge_method") == "S256", "code_challenge_method")
        code = secrets.token_urlsafe()
        self._codes[code] = query
        back = f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"
        page = f'<title>Provider</title><link rel="icon" href="data:,"><a href="{back.replace("&", "&amp;")}">Allow</a>'
        return web.Response(text=page, content_type="text/html")

    async def _token(self, request: web.Request) -> web.Response:
        body = dict(await request.post())
        asked = self._codes.pop(str(body.get("code")), None)
        self._expect(asked is not None, "code")
        assert asked is not None
        self._expect(body.get("client_id") == CLIENT_ID, "client_id of the token")
        self._expect(body.get("client_secret") == SECRET, "client_secret")
        self._expect(body.get("redirect_uri") == asked["redirect_uri"], "redirect_uri")
        verifier = hashlib.sha256(str(body.get("code_verifier")).encode()).digest()
        challenge = base64.urlsafe_b64encode(verifier).decode().rstrip("=")
        self._expect(challenge == asked["code_challenge"], "code_verifier")
        access = secrets.token_urlsafe()
        self._tokens.add(access)
        now = int(time.time())
        claims = {**self.person, "iss": self.url, "aud": CLIENT_ID, "iat": now, "exp": now + 60}
        if "nonce" in asked:
            claims["nonce"] = asked["nonce"]
        signed = jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": KEY_ID})
        return web.json_response(
            {"access_token": access, "token_type": "Bearer", "expires_in": 60, "id_token": signed}
        )

    async def _userinfo(self, request: web.Request) -> web.Response:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self._expect(given in self._tokens, "access_token")
        return web.json_response(self.person)

    async def _keys(self, _: web.Request) -> web.Response:
        public = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return web.json_response({"keys": [{**public, "kid": KEY_ID, "use": "sig"}]})

    def _expect(self, is_right: bool, what: str) -> None:
        if not is_right:
            self.problems.append(what)
            raise web.HTTPBadRequest(text=what)


@asynccontextmanager
async def oidc_provider() -> AsyncIterator[OidcProvider]:
    """Serves one on 127.0.0.1, which for a browser is another site than localhost."""
    provider = OidcProvider()
    runner = web.AppRunner(provider.application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    provider.url = f"http://{host}:{port}"
    try:
        yield provider
    finally:
        await runner.cleanup()
