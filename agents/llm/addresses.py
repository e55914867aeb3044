"""From a provider's ``base_url`` to the address that is posted to. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from agents.llm.errors import BadRequest

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com"


def openai_url(base_url: str) -> str:
    return _joined(base_url or OPENAI, "/chat/completions")


def anthropic_url(base_url: str) -> str:
    """With and without ``/v1`` at its end, for both are written."""
    scheme, host, path, query = _split(base_url or ANTHROPIC)
    if path.endswith("/messages"):
        return urlunsplit((scheme, host, path, query, ""))
    return urlunsplit((scheme, host, path.removesuffix("/v1") + "/v1/messages", query, ""))


def _joined(base_url: str, ending: str) -> str:
    scheme, host, path, query = _split(base_url)
    path = path if path.endswith(ending) else path + ending
    return urlunsplit((scheme, host, path, query, ""))


def _split(base_url: str) -> tuple[str, str, str, str]:
    try:
        parts = urlsplit(base_url.strip())
        _ = parts.port  # refuses a port that is no number
    except ValueError:
        raise BadRequest("bad request: base_url in crush.json is no address.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadRequest(
            "bad request: base_url in crush.json must begin with http:// or https:// and name a "
            "host."
        )
    return parts.scheme, parts.netloc, parts.path.rstrip("/"), parts.query
