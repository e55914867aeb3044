"""The words and codes by which the known providers say what went wrong. Pure data."""

from __future__ import annotations

import re

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
