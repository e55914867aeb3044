"""Builds the URL and the headers of a request to a provider, and chooses its HTTP proxy. Pure.

Headers are checked before they are sent. Otherwise a key with a line break (for instance from a
file with several lines) would fail only after connecting, or would inject a header.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

from agents.config.settings import ProviderSettings
from agents.llm.errors import BadRequest

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com"
GEMINI = "https://generativelanguage.googleapis.com/v1beta"


def openai_url(base_url: str) -> str:
    return _joined(base_url or OPENAI, "/chat/completions")


def anthropic_url(base_url: str) -> str:
    """Returns the messages URL; ``base_url`` may end with ``/v1`` or not: both are in use."""
    scheme, host, path, query = _split(base_url or ANTHROPIC)
    if path.endswith("/messages"):
        return urlunsplit((scheme, host, path, query, ""))
    return urlunsplit((scheme, host, path.removesuffix("/v1") + "/v1/messages", query, ""))


def responses_url(base_url: str) -> str:
    return _joined(base_url or OPENAI, "/responses")


def is_openai(base_url: str) -> bool:
    """Whether the address is OpenAI's own, not a compatible server's."""
    try:
        host = urlsplit(base_url or OPENAI).hostname or ""
    except ValueError:
        return False
    return host == "api.openai.com" or host.endswith(".api.openai.com")


def gemini_url(base_url: str, model: str) -> str:
    scheme, host, path, _query = _split(base_url or GEMINI)
    path = path.removesuffix("/openai")  # the OpenAI-compatible endpoint lies below Gemini's own
    name = quote(model.removeprefix("models/"), safe="")
    path = f"{path}/models/{name}:streamGenerateContent"
    return urlunsplit((scheme, host, path, "alt=sse", ""))


def azure_url(base_url: str, model: str, version: str) -> str:
    """Returns a deployment's URL, or Azure's ``/openai/v1`` if there is no dated API version.

    At ``/openai/v1`` the body names the model.
    """
    scheme, host, path, query = _split(base_url)
    if path.endswith("/chat/completions"):
        return urlunsplit((scheme, host, path, query, ""))
    wanted_version = parse_qs(query).get("api-version", [version])[0]
    if "/deployments/" not in path:
        path = path.removesuffix("/v1").removesuffix("/openai") + "/openai"
        dated = wanted_version[:4].isdecimal()
        path += f"/deployments/{quote(model, safe='')}" if dated else "/v1"
    query = f"api-version={quote(wanted_version, safe='')}" if wanted_version else ""
    return urlunsplit((scheme, host, path + "/chat/completions", query, ""))


def bedrock_url(base_url: str, model: str) -> str:
    scheme, host, path, _query = _split(base_url)
    path = f"{path}/model/{quote(model, safe='')}/invoke-with-response-stream"
    return urlunsplit((scheme, host, path, "", ""))


def vertex_url(base_url: str, model: str) -> str:
    """``base_url`` ends with the location: ``…/v1/projects/PROJECT/locations/LOCATION``."""
    scheme, host, path, _query = _split(base_url)
    # The host of the location "global" has no location prefix.
    host = host.replace("global-aiplatform.", "aiplatform.")
    path = f"{path}/publishers/anthropic/models/{quote(model, safe='@')}:streamRawPredict"
    return urlunsplit((scheme, host, path, "", ""))


def _joined(base_url: str, ending: str) -> str:
    scheme, host, path, query = _split(base_url)
    path = path if path.endswith(ending) else path + ending
    return urlunsplit((scheme, host, path, query, ""))


def _split(base_url: str) -> tuple[str, str, str, str]:
    try:
        parts = urlsplit(base_url.strip())
        _ = parts.port  # raises ValueError if the port is not a number
    except ValueError:
        raise BadRequest("bad request: base_url in crush.json is not a URL.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadRequest(
            "bad request: base_url in crush.json must begin with http:// or https:// and name a "
            "host."
        )
    return parts.scheme, parts.netloc, parts.path.rstrip("/"), parts.query


NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
VALUE = re.compile(r"[\x20-\x7e\x80-\xff\t]*")

COMMON = {
    "Content-Type": "application/json",
    "Accept": "text/event-stream",
    "Accept-Encoding": "identity",  # a compressed stream arrives in large pieces
    "User-Agent": "crush-server",
}


def request_headers(settings: ProviderSettings, own: Mapping[str, str]) -> dict[str, str]:
    """Merges common, dialect and configured headers; later ones win. Raises ``BadRequest``."""
    headers = dict(COMMON)
    for name, value in (*own.items(), *settings.extra_headers.items()):
        if not NAME.fullmatch(name) or not VALUE.fullmatch(value):
            # Quotes neither name nor value: both may hold a key.
            raise BadRequest(
                f"bad request: api_key or extra_headers of provider '{settings.id}' in crush.json "
                "hold characters that HTTP cannot send."
            )
        same = next((known for known in headers if known.lower() == name.lower()), name)
        headers.pop(same, None)
        headers[name] = value
    return headers


def bearer(key: str) -> dict[str, str]:
    """Returns the ``Authorization`` header; the key may already begin with ``Bearer``."""
    key = key.strip()
    if not key:
        return {}
    return {"Authorization": key if key.startswith("Bearer ") else f"Bearer {key}"}


def proxy_for(url: str, env: Mapping[str, str]) -> str | None:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if _is_loopback(host):
        return None
    names = (f"{parts.scheme}_proxy", "all_proxy")
    proxy = next((value for name in names if (value := _either(env, name))), "")
    if not proxy.startswith(("http://", "https://")):
        return None  # other kinds of proxies are not supported
    return None if _is_bypassed(host, _either(env, "no_proxy")) else proxy


def _is_bypassed(host: str, no_proxy: str) -> bool:
    """Whether ``NO_PROXY`` excludes the host: by its name, a parent domain, or ``*``."""
    for entry in no_proxy.lower().split(","):
        name = entry.strip().partition(":")[0].removeprefix("*").lstrip(".")
        if entry.strip() == "*" or (name and (host == name or host.endswith(f".{name}"))):
            return True
    return False


def _either(env: Mapping[str, str], name: str) -> str:
    return env.get(name) or env.get(name.upper()) or ""


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
