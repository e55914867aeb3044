"""From a provider's ``base_url`` to the address that is posted to. Pure."""

from __future__ import annotations

from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

from agents.llm.errors import BadRequest

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com"
GEMINI = "https://generativelanguage.googleapis.com/v1beta"


def openai_url(base_url: str) -> str:
    return _joined(base_url or OPENAI, "/chat/completions")


def anthropic_url(base_url: str) -> str:
    """With and without ``/v1`` at its end, for both are written."""
    scheme, host, path, query = _split(base_url or ANTHROPIC)
    if path.endswith("/messages"):
        return urlunsplit((scheme, host, path, query, ""))
    return urlunsplit((scheme, host, path.removesuffix("/v1") + "/v1/messages", query, ""))


def responses_url(base_url: str) -> str:
    return _joined(base_url or OPENAI, "/responses")


def is_openai(base_url: str) -> bool:
    """OpenAI itself, not a server that is compatible."""
    try:
        host = urlsplit(base_url or OPENAI).hostname or ""
    except ValueError:
        return False
    return host == "api.openai.com" or host.endswith(".api.openai.com")


def gemini_url(base_url: str, model: str) -> str:
    scheme, host, path, _query = _split(base_url or GEMINI)
    path = path.removesuffix("/openai")  # the compatible endpoint lies under this one
    name = quote(model.removeprefix("models/"), safe="")
    path = f"{path}/models/{name}:streamGenerateContent"
    return urlunsplit((scheme, host, path, "alt=sse", ""))


def azure_url(base_url: str, model: str, version: str) -> str:
    """Without a version it is Azure's ``/openai/v1``, where the model stands in the body."""
    scheme, host, path, query = _split(base_url)
    if path.endswith("/chat/completions"):
        return urlunsplit((scheme, host, path, query, ""))
    asked = parse_qs(query).get("api-version", [version])[0]
    if "/deployments/" not in path:
        path = path.removesuffix("/v1").removesuffix("/openai") + "/openai"
        dated = asked[:4].isdecimal()
        path += f"/deployments/{quote(model, safe='')}" if dated else "/v1"
    query = f"api-version={quote(asked, safe='')}" if asked else ""
    return urlunsplit((scheme, host, path + "/chat/completions", query, ""))


def bedrock_url(base_url: str, model: str) -> str:
    scheme, host, path, _query = _split(base_url)
    path = f"{path}/model/{quote(model, safe='')}/invoke-with-response-stream"
    return urlunsplit((scheme, host, path, "", ""))


def vertex_url(base_url: str, model: str) -> str:
    """``base_url`` ends with the location: ``…/v1/projects/PROJECT/locations/LOCATION``."""
    scheme, host, path, _query = _split(base_url)
    # The location "global" has no name of its own in the host.
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
        _ = parts.port  # refuses a port that is no number
    except ValueError:
        raise BadRequest("bad request: base_url in crush.json is not a URL.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadRequest(
            "bad request: base_url in crush.json must begin with http:// or https:// and name a "
            "host."
        )
    return parts.scheme, parts.netloc, parts.path.rstrip("/"), parts.query
