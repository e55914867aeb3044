"""Who we are to AWS: an API key of Bedrock's, or a signature with an account's keys.

Keys come from the workspace's environment, else from wherever botocore finds them
(profiles, roles of the machine). That may block, so it is done in a thread.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth  # type: ignore[import-untyped]  # botocore is untyped
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]  # botocore is untyped
from botocore.credentials import Credentials  # type: ignore[import-untyped]  # botocore is untyped
from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]  # botocore is untyped
from botocore.session import Session  # type: ignore[import-untyped]  # botocore is untyped

from agents.config.settings import ProviderSettings
from agents.llm.errors import WrongKey

REGION = re.compile(r"bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.")
FALLBACK_REGION = "us-east-1"
MOST_PROFILES = 64


class Signer:
    def __init__(self, settings: ProviderSettings, env: Mapping[str, str]) -> None:
        self._settings = settings
        self._env = env
        self._region = region_of(settings.base_url, env)
        self._credentials = _from_env(env)

    async def headers(self, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Those given and the signature's. Raises ``WrongKey`` where there are no keys."""
        return await asyncio.to_thread(self._signed, url, headers, body)

    def _signed(self, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        try:
            credentials = self._credentials or _of_machine(self._env.get("AWS_PROFILE"))
            frozen = credentials.get_frozen_credentials() if credentials is not None else None
        except BotoCoreError as error:
            raise self._no_keys(type(error).__name__) from None
        if frozen is None:
            raise self._no_keys("none were found")
        own = {"Content-Type": headers["Content-Type"], "Accept": headers["Accept"]}
        request = AWSRequest(method="POST", url=url, data=body, headers=own)
        SigV4Auth(frozen, "bedrock", self._region).add_auth(request)
        return {**headers, **dict(request.headers.items())}

    def _no_keys(self, reason: str) -> WrongKey:
        return WrongKey(
            f"{self._settings.name} asks for the keys of an AWS account ({reason}). Set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or "
            "AWS_BEARER_TOKEN_BEDROCK."
        )


def region_of(base_url: str, env: Mapping[str, str]) -> str:
    """The address' own, for a signature of another region is refused."""
    if match := REGION.match(urlsplit(base_url).hostname or ""):
        return match[1]
    return env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or FALLBACK_REGION


def _from_env(env: Mapping[str, str]) -> Credentials | None:
    key, secret = env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        return None
    return Credentials(key, secret, env.get("AWS_SESSION_TOKEN") or None)


_machine: dict[str | None, Any] = {}  # by profile; those of a role renew themselves


def _of_machine(profile: str | None) -> Any:
    """Blocks. What is not there is looked for again the next time."""
    found = _machine.get(profile)
    if found is None:
        found = Session(profile=profile).get_credentials()
        if found is not None and len(_machine) < MOST_PROFILES:
            _machine[profile] = found
    return found
