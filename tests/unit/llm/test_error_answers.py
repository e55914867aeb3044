import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.config.settings import ProviderSettings
from agents.llm.error_answers import (
    QUOTE_LIMIT,
    error_for_answer,
    error_in_stream,
    retry_after,
    scrub,
    shown_url,
)
from agents.llm.errors import (
    BadRequest,
    BrokenStream,
    ContextExhausted,
    ModelError,
    Overloaded,
    QuotaExhausted,
    RateLimited,
    UnknownModel,
    WrongKey,
)

KEY = "sk-secret-0123456789"
OPENAI = ProviderSettings(
    "mine", "Mine", "openai", "https://user:pw@host:1/v1?key=z", KEY, {"x-token": "tok-en-1"}
)


def read(status: int, message: str = "", *, kind: str = "", **headers: str) -> ModelError:
    body = json.dumps({"error": {"message": message, "type": kind}}).encode()
    return error_for_answer(OPENAI, "m", status=status, body=body, headers=headers, now=0.0)


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (401, "Incorrect API key provided: sk-sec***", WrongKey),
        (403, "forbidden", WrongKey),
        (404, "not found", UnknownModel),
        (400, "The model `x` does not exist or you do not have access to it.", UnknownModel),
        (403, "Project does not have access to model: model not found", UnknownModel),
        (400, "x is not a valid model", BadRequest),
        (400, "model x is not a valid model ID", UnknownModel),
        (402, "", QuotaExhausted),
        (429, "You exceeded your current quota, please check your plan", QuotaExhausted),
        (400, "Your credit balance is too low to access the API", QuotaExhausted),
        (429, "Rate limit reached", RateLimited),
        (500, "oops", Overloaded),
        (503, "oops", Overloaded),
        (529, "Overloaded", Overloaded),
        (408, "timeout", Overloaded),
        (400, "tools.0: bad schema", BadRequest),
        (302, "", BadRequest),
        (418, "", BadRequest),
        (
            400,
            "This model's maximum context length is 128000 tokens. However, your messages "
            "resulted in 130000 tokens.",
            ContextExhausted,
        ),
        (400, "prompt is too long: 208310 tokens > 200000 maximum", ContextExhausted),
        (
            400,
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            ContextExhausted,
        ),
        (413, "Request too large: too many tokens", ContextExhausted),
        (
            400,
            "the request exceeds the available context size, try increasing it",
            ContextExhausted,
        ),
        (
            400,
            "The input token count (1200000) exceeds the maximum number of tokens allowed",
            ContextExhausted,
        ),
        (
            400,
            "Please reduce the length of the messages or completion.",
            ContextExhausted,
        ),
    ],
)
def test_each_answer_has_its_error(status: int, message: str, expected: type[ModelError]) -> None:
    assert type(read(status, message)) is expected


def test_the_code_of_the_error_counts_as_well() -> None:
    body = json.dumps({"error": {"message": "no", "code": "context_length_exceeded"}}).encode()
    error = error_for_answer(OPENAI, "m", status=400, body=body, headers={}, now=0.0)
    assert type(error) is ContextExhausted


def test_what_may_pass_is_tried_again_and_nothing_else() -> None:
    assert all(read(status).retryable for status in (408, 429, 500, 529))
    assert not any(read(status).retryable for status in (400, 401, 402, 404, 413))


def test_the_sentence_says_what_to_do() -> None:
    assert "OPENAI_API_KEY" in str(read(401))
    assert "'mine' in crush.json" in str(read(401))
    keyless = replace(OPENAI, api_key="", kind="openai-compat")
    error = error_for_answer(keyless, "m", status=401, body=b"", headers={}, now=0.0)
    assert "none is set" in str(error)
    assert "OPENAI_API_KEY" not in str(error)
    assert str(read(400, "no such thing")) == "bad request: no such thing"
    assert "'m'" in str(read(404))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 302])
def test_no_secret_is_ever_told(status: int) -> None:
    said = f"bad {KEY} and tok-en-1 and sk-other-abcdefgh*** and Bearer abcdefghijk"
    text = repr(read(status, said)) + str(read(status, said))
    for secret in (KEY, "tok-en-1", "abcdefgh", "user", "pw@", "key=z"):
        assert secret not in text


def test_a_long_message_is_cut_to_one_line() -> None:
    text = scrub(OPENAI, "a\nb\x1b " + "x" * 10_000)
    assert len(text) == QUOTE_LIMIT
    assert text.startswith("a b x")


def test_a_key_is_scrubbed_before_the_cut() -> None:
    said = "x" * (QUOTE_LIMIT - 5) + KEY
    assert KEY[:5] not in scrub(OPENAI, said)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<html>502 nginx</html>", "Mine is overloaded or failing (502)."),
        (b"plain words", "Mine is overloaded or failing (502): plain words"),
        (b'{"error": "words"}', "Mine is overloaded or failing (502): words"),
        (b'{"message": "words"}', "Mine is overloaded or failing (502): words"),
        (b'{"error": [1]}', "Mine is overloaded or failing (502)."),
        (b"\xff\xfe", "Mine is overloaded or failing (502)."),
    ],
)
def test_every_kind_of_body_is_read(body: bytes, expected: str) -> None:
    error = error_for_answer(OPENAI, "m", status=502, body=body, headers={}, now=0.0)
    assert str(error).replace(": \ufffd\ufffd", ".") == expected


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "Retry-After": "9"}, 0.25),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:30 GMT"}, 20.0),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "1e400"}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers, 10.0) == seconds


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"type": "overloaded_error", "message": "x"}, Overloaded),
        ({"type": "rate_limit_error", "message": "x"}, RateLimited),
        ({"type": "api_error", "message": "x"}, Overloaded),
        ({"type": "authentication_error", "message": "x"}, WrongKey),
        (
            {"type": "invalid_request_error", "message": "prompt is too long: 3 > 2"},
            ContextExhausted,
        ),
        ({"code": 429, "message": "x"}, RateLimited),
        ({"message": "context length exceeded"}, ContextExhausted),
        ({"message": "what"}, BrokenStream),
        ("words", BrokenStream),
        (None, BrokenStream),
        ([], BrokenStream),
    ],
)
def test_an_error_in_the_stream_has_its_kind(error: object, expected: type[ModelError]) -> None:
    assert type(error_in_stream(OPENAI, "m", error)) is expected


def test_an_address_is_shown_without_its_secrets() -> None:
    assert shown_url(OPENAI.base_url) == "https://host:1/v1"
    assert shown_url("http://[::1]:80/v1") == "http://[::1]:80/v1"
    assert shown_url("http://[") == "an address that cannot be read"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(300, 599), st.binary(max_size=60) | st.text(max_size=30).map(str.encode))
def test_any_answer_is_read(status: int, body: bytes) -> None:
    error = error_for_answer(OPENAI, "m", status=status, body=body, headers={}, now=0.0)
    assert str(error)


@pytest.mark.parametrize(
    ("said", "wait"), [("Please try again in 1.5s.", 1.5), ("try again in 250ms", 0.25), ("", None)]
)
def test_a_limit_in_the_stream_says_when_to_come_back(said: str, wait: float | None) -> None:
    error = error_in_stream(OPENAI, "m", {"code": "rate_limit_exceeded", "message": said})
    assert isinstance(error, RateLimited)
    assert error.retry_after == wait


def test_googles_minute_quota_is_a_limit_and_its_empty_account_is_not() -> None:
    told = {
        "code": 429,
        "message": "You exceeded your current quota",
        "status": "RESOURCE_EXHAUSTED",
    }
    delay = {"details": [{"@type": "x"}, {"retryDelay": "3.5s"}]}
    for body, expected, wait in (
        ({"error": told | delay}, RateLimited, 3.5),
        ([{"error": told | delay}], RateLimited, 3.5),
        ({"error": told}, QuotaExhausted, None),
    ):
        error = error_for_answer(
            OPENAI, "m", status=429, body=json.dumps(body).encode(), headers={}, now=0.0
        )
        assert type(error) is expected
        assert error.retry_after == wait


def test_an_empty_account_stays_one_when_a_pause_is_named_too() -> None:
    body = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    error = error_for_answer(
        OPENAI,
        "m",
        status=429,
        body=json.dumps(body).encode(),
        headers={"Retry-After": "3"},
        now=0.0,
    )
    assert type(error) is QuotaExhausted
    assert not error.retryable


@pytest.mark.parametrize(
    "secret",
    [
        "ya29.a0AfH6SMBx-short_lived",
        "ASIAIOSFODNN7EXAMPLE",
        "x-amz-security-token:IQoJb3JpZ2luX2VjEA/+=",
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ4In0.c2ln",
    ],
)
def test_tokens_of_clouds_are_never_repeated(secret: str) -> None:
    said = f"The canonical string should have been host:h {secret} and no other"
    assert secret not in scrub(OPENAI, said)
    assert "and no other" in scrub(OPENAI, said)
