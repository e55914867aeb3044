"""Reads a provider's error answer into a ``ModelError``.

Pure. Whatever it quotes is cut and scrubbed of keys first. By which words the
known providers are understood stands in ``agents.llm.error_answers``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from agents.config.settings import ProviderSettings
from agents.llm.errors import (
    BadRequest,
    BrokenStream,
    ContentFiltered,
    ContextExhausted,
    ModelError,
    Overloaded,
    QuotaExhausted,
    RateLimited,
    UnknownModel,
    WrongKey,
)
from agents.llm.json_text import parse_object

WINDOW = re.compile(
    r"context[_ ]length|context[_ ](window|size|limit)|prompt is too long|"
    r"input is too long|maximum (context|prompt) length|reduce the length of|"
    r"exceeds? the (maximum|max) (number of )?(input )?tokens|"
    r"exceeds the maximum number of tokens|too many (input )?tokens|request_too_large|"
    r"input (length|token count).{0,80}exceed|prompt.{0,40}(exceeds|larger than).{0,40}context",
    re.IGNORECASE | re.DOTALL,
)
UNKNOWN = re.compile(
    r"model[_ ]not[_ ](found|exist)|(unknown|invalid|no such|unsupported) model\b|"
    r"model\b.{0,120}?(does not exist|not found|not exist|is not a valid model|not supported)",
    re.IGNORECASE | re.DOTALL,
)
EMPTY_ACCOUNT = re.compile(
    r"insufficient[_ ](quota|balance|credits?)|credit balance is too low|billing|"
    r"exceeded your current quota|payment required",
    re.IGNORECASE,
)
BAD_KEY = re.compile(
    r"api[_ ]key[_ ](not valid|invalid|expired)|(invalid|incorrect) api key", re.IGNORECASE
)
FILTERED = re.compile(
    r"content[_ ]filter|ResponsibleAIPolicyViolation|content management policy", re.IGNORECASE
)
LATER = re.compile(r"\btry again in (\d{1,6}(?:\.\d{1,6})?)(ms|s)\b")
# By the provider's id, else by its type.
VARIABLES = {
    "openai": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "azure": "AZURE_OPENAI_API_KEY",
    "bedrock": "AWS_BEARER_TOKEN_BEDROCK",
    "openrouter": "OPENROUTER_API_KEY",
    "groq": "GROQ_API_KEY",
    "xai": "XAI_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
}
# What a provider calls its error in the middle of a stream, as the status it would have had.
STATUS_BY_KIND = {
    "overloaded_error": 529,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
    "timeout_error": 504,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "billing_error": 402,
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "request_too_large": 413,
    "insufficient_quota": 429,
    "invalid_prompt": 400,
    "content_filter": 400,
    "RESOURCE_EXHAUSTED": 429,
    "UNAVAILABLE": 503,
    "INTERNAL": 500,
    "DEADLINE_EXCEEDED": 504,
    "INVALID_ARGUMENT": 400,
    "throttlingException": 429,
    "serviceUnavailableException": 503,
    "internalServerException": 500,
    "modelTimeoutException": 504,
    "modelStreamErrorException": 500,
    "validationException": 400,
}


QUOTE_LIMIT = 500

KEY_LIKE = re.compile(
    r"\b(?:sk|pk|rk|xai|gsk|key)[-_][-\w*.]{8,}|\bAIza[-\w*]{8,}|\bBearer\s+[-\w*.]{8,}|"
    # Google's and AWS' short-lived ones; AWS repeats a request whose signature is wrong.
    r"\bya29\.[-\w.]{8,}|\beyJ[-\w.]{16,}|\bA[KS]IA[0-9A-Z]{12,}|x-amz-security-token:\s*\S+",
    re.IGNORECASE,
)


def error_for_answer(
    settings: ProviderSettings,
    model: str,
    *,
    status: int,
    body: bytes,
    headers: Mapping[str, str],
    now: float,
) -> ModelError:
    """For an answer that is not a stream. ``now`` is UNIX time, for a dated Retry-After."""
    parsed = _parsed(body)
    said, kind = _from_object(parsed) if parsed is not None else (_plain(body), "")
    wait = retry_after(headers, now)
    if wait is None and parsed is not None:
        wait = _retry_delay(parsed)
    minutes = wait is not None and wait <= LONGEST_PAUSE and kind != "insufficient_quota"
    if status == 429 and minutes:
        # Some say "quota" of each minute's; who says when to come back means that one.
        error: ModelError = _rate_limited(settings, scrub(settings, said))
    else:
        error = _by_status(settings, model, status=status, said=said, kind=kind)
    error.retry_after = wait
    return error


def error_in_stream(settings: ProviderSettings, model: str, error: object) -> ModelError:
    """For an error object that a provider sends in the middle of its stream."""
    said, kind = _from_object({"error": error})
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else STATUS_BY_KIND.get(kind)
    if status is not None:
        told = _by_status(settings, model, status=status, said=said, kind=kind)
        if isinstance(told, RateLimited) and (later := LATER.search(said)):
            told.retry_after = float(later[1]) / (1000 if later[2] == "ms" else 1)
        return told
    if WINDOW.search(f"{kind} {said}"):
        return window_error(model)
    quote = scrub(settings, said)
    return BrokenStream(f"{settings.name} broke off its reply: {quote}" if quote else "")


LONGEST_PAUSE = 3_600.0


def _by_status(
    settings: ProviderSettings, model: str, *, status: int, said: str, kind: str
) -> ModelError:
    quote = scrub(settings, said)
    everything = f"{kind} {said}"
    if status == 402 or (status in (400, 403, 429) and EMPTY_ACCOUNT.search(everything)):
        return QuotaExhausted(
            f"The account at {settings.name} has no credit left: {quote or 'payment required'}. "
            "Add credit there, or choose another model."
        )
    if status == 401 or (status == 400 and BAD_KEY.search(everything)):
        return wrong_key(settings)
    if status in (400, 413, 422) and WINDOW.search(everything):
        return window_error(model)
    if status == 400 and FILTERED.search(everything):
        return ContentFiltered(
            f"The content filter of {settings.name} refused this prompt{': ' + quote if quote else '.'}"
        )
    if status in (400, 403, 404, 422) and (status == 404 or UNKNOWN.search(everything)):
        return UnknownModel(
            f"{settings.name} does not know the model '{model[:200]}'"
            f"{': ' + quote if quote else ''}. Check the model's id and base_url "
            f"({shown_url(settings.base_url)}) of provider '{settings.id}' in crush.json."
        )
    if status == 403:
        return wrong_key(settings, quote)
    if status == 429:
        return _rate_limited(settings, quote)
    if status >= 500 or status in (408, 409, 425):
        return Overloaded(
            f"{settings.name} is overloaded or failing ({status}){': ' + quote if quote else '.'}"
        )
    if 300 <= status < 400:
        return BadRequest(
            f"{settings.name} redirects us away from {shown_url(settings.base_url)}; "
            f"set the final address as base_url of provider '{settings.id}' in crush.json."
        )
    return BadRequest(
        f"bad request: {quote or f'the provider answered {status} and gives no reason'}"
    )


def _rate_limited(settings: ProviderSettings, quote: str) -> RateLimited:
    return RateLimited(f"{settings.name} asks us to slow down{': ' + quote if quote else '.'}")


def window_error(model: str) -> ContextExhausted:
    return ContextExhausted(
        f"The conversation no longer fits into the context window of '{model[:200]}'. "
        "Summarize the session, start a new one, or choose a model with a larger window."
    )


def wrong_key(settings: ProviderSettings, quote: str = "") -> WrongKey:
    variable = VARIABLES.get(settings.id) or VARIABLES.get(settings.kind)
    where = f"api_key of provider '{settings.id}' in crush.json"
    remedy = f"Set {variable}, or {where}." if variable else f"Set {where}."
    if not settings.api_key:
        return WrongKey(f"{settings.name} asks for an API key and none is set. {remedy}")
    reason = f": {quote}" if quote else ""
    return WrongKey(f"{settings.name} refused the API key{reason}. {remedy}")


def scrub(settings: ProviderSettings, text: str) -> str:
    """One line of at most ``QUOTE_LIMIT`` characters without anything like a key."""
    # A hostile answer is cut before the expressions see it, yet not through a key.
    text = text[: QUOTE_LIMIT * 8]
    secrets = [settings.api_key, settings.api_key.removeprefix("Bearer ").strip()]
    secrets += settings.extra_headers.values()
    for secret in sorted({item for item in secrets if len(item) >= 4}, key=len, reverse=True):
        text = text.replace(secret, "[key]")
    text = KEY_LIKE.sub("[key]", text)
    text = " ".join(text.split())
    text = "".join(character for character in text if character.isprintable())
    return text if len(text) <= QUOTE_LIMIT else text[: QUOTE_LIMIT - 1] + "…"


def shown_url(url: str) -> str:
    """Without user, password and query, which may hold keys."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "an address that cannot be read"
    where = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{where}{f':{port}' if port else ''}{parts.path}"[:200]


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds; from ``retry-after-ms`` or ``Retry-After`` as a number or a date."""
    lowered = {name.lower(): value for name, value in headers.items()}
    millis = _number(lowered.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000
    raw = lowered.get("retry-after")
    if raw is None:
        return None
    seconds = _number(raw)
    if seconds is not None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(raw).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _number(raw: str | None) -> float | None:
    if raw is None:
        return None
    try:
        value = float(raw)
    except ValueError:
        return None
    return value if 0 <= value < 1e9 else None


def _parsed(body: bytes) -> Mapping[str, Any] | None:
    """The object; of a list that Google answers with, its first."""
    return parse_object(body) or parse_object(body.strip().removeprefix(b"[").removesuffix(b"]"))


def _plain(body: bytes) -> str:
    text = body[: QUOTE_LIMIT * 8].decode("utf-8", "replace")
    # A page of HTML says nothing to people.
    return "" if text.lstrip().startswith("<") else text


def _retry_delay(parsed: Mapping[str, Any]) -> float | None:
    """Google says in the body when to come back: ``"retryDelay": "3.5s"``."""
    error = parsed.get("error")
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str):
            return _number(delay.removesuffix("s"))
    return None


def _from_object(parsed: Mapping[str, Any]) -> tuple[str, str]:
    error = parsed.get("error", parsed)
    if isinstance(error, str):
        return error, ""
    if not isinstance(error, dict):
        return "", ""
    message = next(
        (
            value
            for name in ("message", "msg", "detail", "error")
            if isinstance(value := error.get(name), str)
        ),
        "",
    )
    said = (error.get(name) for name in ("code", "type", "status"))
    kind = next((name for name in said if isinstance(name, str) and name), "")
    return message, kind
