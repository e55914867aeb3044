"""Reads a provider's error response into a ``ModelError``.

Pure. Text of the response is cut, and keys are removed, before an error quotes it. The
expressions at the top match the error texts of the known providers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from agents.config.providers.kinds import BY_NAME
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
# The kinds of errors inside a stream, with the HTTP status of the same error before a stream.
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
    # Short-lived keys of Google and AWS; AWS quotes a request whose signature is wrong.
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
    """Returns the error for a response that is not a stream.

    ``now`` is UNIX time, for a Retry-After with a date.
    """
    parsed = _parsed(body)
    message, kind = _from_object(parsed) if parsed is not None else (_plain(body), "")
    wait = retry_after(headers, now)
    if wait is None and parsed is not None:
        wait = _retry_delay(parsed)
    minutes = wait is not None and wait <= LONGEST_PAUSE and kind != "insufficient_quota"
    if status == 429 and minutes:
        # Some providers also call the limit of a minute "quota"; it comes with a retry time.
        error: ModelError = _rate_limited(settings, scrub(settings, message))
    else:
        error = _by_status(settings, model, status=status, message=message, kind=kind)
    error.retry_after = wait
    return error


def error_in_stream(settings: ProviderSettings, model: str, error: object) -> ModelError:
    """Returns the error for an error object inside a stream."""
    message, kind = _from_object({"error": error})
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else STATUS_BY_KIND.get(kind)
    if status is not None:
        answer = _by_status(settings, model, status=status, message=message, kind=kind)
        if isinstance(answer, RateLimited) and (later := LATER.search(message)):
            answer.retry_after = float(later[1]) / (1000 if later[2] == "ms" else 1)
        return answer
    if WINDOW.search(f"{kind} {message}"):
        return window_error(model)
    quote = scrub(settings, message)
    return BrokenStream(f"{settings.name} ended its reply with an error: {quote}" if quote else "")


LONGEST_PAUSE = 3_600.0


def _by_status(
    settings: ProviderSettings, model: str, *, status: int, message: str, kind: str
) -> ModelError:
    quote = scrub(settings, message)
    everything = f"{kind} {message}"
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
            f"{settings.name} has no model '{model[:200]}'"
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
            f"{settings.name} redirects requests for {shown_url(settings.base_url)} to another address; "
            f"set the final address as base_url of provider '{settings.id}' in crush.json."
        )
    return BadRequest(
        f"bad request: {quote or f'the provider answered with status {status} and no reason'}"
    )


def _rate_limited(settings: ProviderSettings, quote: str) -> RateLimited:
    return RateLimited(
        f"{settings.name} limits the rate of requests{': ' + quote if quote else '. Try again later.'}"
    )


def window_error(model: str) -> ContextExhausted:
    return ContextExhausted(
        f"The conversation no longer fits into the context window of '{model[:200]}'. "
        "Summarize the session, start a new one, or choose a model with a larger window."
    )


def wrong_key(settings: ProviderSettings, quote: str = "") -> WrongKey:
    kinds = [BY_NAME[name] for name in (settings.id, settings.kind) if name in BY_NAME]
    variable = next((kind.key_variable for kind in kinds if kind.key_variable), "")
    where = f"api_key of provider '{settings.id}' in crush.json"
    remedy = f"Set {variable}, or {where}." if variable else f"Set {where}."
    if not settings.api_key:
        return WrongKey(f"{settings.name} needs an API key, and none is set. {remedy}")
    reason = f": {quote}" if quote else ""
    return WrongKey(f"{settings.name} refused the API key{reason}. {remedy}")


def scrub(settings: ProviderSettings, text: str) -> str:
    """Returns one line of at most ``QUOTE_LIMIT`` characters without anything like a key."""
    # Bounds the time of the expressions. A key that is cut here lies far behind the quote.
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
    """Returns the address without user, password and query, which may hold keys."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "an address that cannot be read"
    where = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{where}{f':{port}' if port else ''}{parts.path}"[:200]


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Returns seconds from ``retry-after-ms`` or ``Retry-After``, a number or a date."""
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
    """Returns the JSON object, or the object in the list of one that Google sends."""
    return parse_object(body) or parse_object(body.strip().removeprefix(b"[").removesuffix(b"]"))


def _plain(body: bytes) -> str:
    text = body[: QUOTE_LIMIT * 8].decode("utf-8", "replace")
    # An HTML page does not help the user.
    return "" if text.lstrip().startswith("<") else text


def _retry_delay(parsed: Mapping[str, Any]) -> float | None:
    """Returns the retry delay that Google sends in the body: ``"retryDelay": "3.5s"``."""
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
    names = (error.get(name) for name in ("code", "type", "status"))
    kind = next((name for name in names if isinstance(name, str) and name), "")
    return message, kind
