"""Who we are to the clouds: AWS' signatures and Google's tokens, and what comes instead."""

from __future__ import annotations

import binascii
import json
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from agents.config.settings import ProviderSettings
from agents.llm.contract import ModelEvent, Stopped, TextDelta
from agents.llm.errors import BrokenStream, ModelError, Unreachable, WrongKey
from agents.llm.providers import provider_for
from agents.llm.wires.bedrock import AwsEvents, region_of
from tests.doubles.conversation import request, user
from tests.doubles.recorded_provider import RecordedProvider, aws, refusal
from tests.integration.llm.subjects import PLACE, SUBJECTS
from workspaces.log.parts import FinishReason

BEDROCK = next(subject for subject in SUBJECTS if subject.id == "bedrock")
VERTEX = next(subject for subject in SUBJECTS if subject.id == "vertex")
AZURE = next(subject for subject in SUBJECTS if subject.id == "azure")
ACCOUNT = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "AWS_SESSION_TOKEN": "token-of-a-role",
    "AWS_REGION": "eu-west-1",
}


@pytest.fixture
async def server() -> AsyncIterator[RecordedProvider]:
    async with RecordedProvider() as server:
        yield server


async def say(
    settings: ProviderSettings, env: dict[str, str], model: str = "m-1"
) -> list[ModelEvent]:
    asked = request(user("hi"), model=BEDROCK.info if model == "m-1" else VERTEX.info)
    return [e async for batch in provider_for(settings, env).stream(asked) for e in batch]


async def test_the_keys_of_an_account_sign_exactly_what_is_sent(server: RecordedProvider) -> None:
    server.answers = [BEDROCK.recorded("words")]
    events = await say(ProviderSettings("bedrock", "Bedrock", "bedrock", server.url), ACCOUNT)
    assert isinstance(events[-1], Stopped)
    (asked,) = server.requests
    # The same signature again, by botocore, from nothing but what arrived.
    again = AWSRequest(
        method="POST",
        url=server.url + asked.target,
        data=asked.raw,
        headers={"Content-Type": asked.headers["content-type"], "Accept": asked.headers["accept"]},
    )
    again.context["timestamp"] = asked.headers["x-amz-date"]
    again.headers["X-Amz-Date"] = asked.headers["x-amz-date"]
    again.headers["X-Amz-Security-Token"] = ACCOUNT["AWS_SESSION_TOKEN"]
    told = asked.headers["authorization"]
    names = told.split("SignedHeaders=")[1].split(",")[0].split(";")
    assert {"content-type", "host", "x-amz-date", "x-amz-security-token"} <= set(names)
    keys = Credentials(ACCOUNT["AWS_ACCESS_KEY_ID"], ACCOUNT["AWS_SECRET_ACCESS_KEY"])
    signer = SigV4Auth(keys, "bedrock", "eu-west-1")
    text = signer.string_to_sign(again, signer.canonical_request(again))
    assert told.endswith(f"Signature={signer.signature(text, again)}")
    assert "/eu-west-1/bedrock/aws4_request" in told
    assert ACCOUNT["AWS_SECRET_ACCESS_KEY"] not in asked.raw.decode() + str(asked.headers)


async def test_the_body_for_bedrock_names_no_model_and_keeps_the_cache_marks(
    server: RecordedProvider,
) -> None:
    server.answers = [BEDROCK.recorded("words")]
    await say(ProviderSettings("bedrock", "Bedrock", "bedrock", server.url), ACCOUNT)
    body = server.requests[0].body
    assert body["anthropic_version"] == "bedrock-2023-05-31"
    assert not {"model", "stream"} & set(body)
    mark = {"type": "ephemeral"}
    assert body["system"][-1]["cache_control"] == mark
    assert body["tools"][-1]["cache_control"] == mark
    assert body["messages"][-1]["content"][-1]["cache_control"] == mark


async def test_without_an_account_it_is_said_how_to_give_one(
    server: RecordedProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(WrongKey, match="AWS_ACCESS_KEY_ID"):
        await say(ProviderSettings("bedrock", "Bedrock", "bedrock", server.url), {})
    with pytest.raises(WrongKey, match="AWS_PROFILE"):
        await say(
            ProviderSettings("bedrock", "Bedrock", "bedrock", server.url), {"AWS_PROFILE": "no"}
        )
    assert not server.requests


@pytest.mark.parametrize(
    ("address", "env", "region"),
    [
        ("https://bedrock-runtime.eu-north-1.amazonaws.com", {"AWS_REGION": "x"}, "eu-north-1"),
        ("https://bedrock-runtime-fips.us-west-2.amazonaws.com", {}, "us-west-2"),
        ("http://127.0.0.1:1", {"AWS_DEFAULT_REGION": "ap-south-1"}, "ap-south-1"),
        ("http://127.0.0.1:1", {}, "us-east-1"),
    ],
)
def test_the_region_is_the_addresses_own(address: str, env: dict[str, str], region: str) -> None:
    assert region_of(address, env) == region


def test_events_of_aws_are_found_however_the_network_cuts_them() -> None:
    events = BEDROCK.events("words")
    whole = b"".join(aws(events).pieces)
    for size in (1, 7, 1000, len(whole)):
        framing = AwsEvents()
        found = [
            json.loads(data)
            for start in range(0, len(whole), size)
            for data in framing.feed(whole[start : start + size])
        ]
        assert found == events


def test_a_damaged_or_endless_event_of_aws_is_a_broken_stream() -> None:
    whole = bytearray(b"".join(aws(BEDROCK.events("words")).pieces))
    whole[40] ^= 1
    with pytest.raises(BrokenStream):
        AwsEvents().feed(bytes(whole))
    endless = AwsEvents()
    headers = b"\x00\x50\x00\x00" + b"\x00\x00\x00\x10"  # it will be 5 MB long
    endless.feed(headers + struct.pack(">I", binascii.crc32(headers)) + b"x" * 4_000_000)
    with pytest.raises(BrokenStream, match="too large"):
        endless.feed(b"x" * 500_000)


def service_account(folder: Path, token_uri: str) -> Path:
    key = generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    file = folder / "account.json"
    told = {
        "type": "service_account",
        "project_id": "p-1",
        "private_key_id": "1",
        "private_key": pem,
        "client_email": "crush@p-1.iam.gserviceaccount.com",
        "token_uri": token_uri,
    }
    file.write_text(json.dumps(told))
    return file


async def test_an_account_of_google_gets_a_token_once_and_uses_it(
    server: RecordedProvider, tmp_path: Path
) -> None:
    token = {"access_token": "ya29.token", "expires_in": 3599, "token_type": "Bearer"}
    server.answers = [refusal(200, token, {}), VERTEX.recorded("words")]
    env = {"GOOGLE_APPLICATION_CREDENTIALS": str(service_account(tmp_path, f"{server.url}/token"))}
    provider = provider_for(ProviderSettings("vertex", "Vertex", "vertex", server.url + PLACE), env)
    for _ in range(2):
        asked = request(user("hi"), model=VERTEX.info)
        events = [event async for batch in provider.stream(asked) for event in batch]
        assert isinstance(events[-1], Stopped)
    signed_in, first, second = server.requests
    assert signed_in.target == "/token"
    assert "jwt-bearer" in parse_qs(signed_in.raw.decode())["grant_type"][0]
    for one in (first, second):
        assert one.headers["authorization"] == "Bearer ya29.token"
        assert one.body["anthropic_version"] == "vertex-2023-10-16"
        assert one.body["stream"] is True
        assert "model" not in one.body


@pytest.mark.parametrize(
    ("answer", "expected"),
    [((400, {"error": "invalid_grant"}), WrongKey), (None, Unreachable)],
)
async def test_a_sign_in_that_fails_is_a_model_error(
    server: RecordedProvider,
    tmp_path: Path,
    answer: tuple[int, dict[str, str]] | None,
    expected: type[ModelError],
) -> None:
    server.answers = [refusal(*(answer or (500, {})), {})]
    where = server.url if answer else "http://127.0.0.1:9"
    env = {"GOOGLE_APPLICATION_CREDENTIALS": str(service_account(tmp_path, f"{where}/token"))}
    with pytest.raises(expected) as caught:
        await say(ProviderSettings("vertex", "Vertex", "vertex", server.url + PLACE), env, "vertex")
    assert "PRIVATE KEY" not in repr(caught.value)


async def test_an_account_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    runs = {"type": "external_account", "credential_source": {"executable": {"command": "id"}}}
    for content in ("", "{}", "[]", '{"type": "service_account"}', json.dumps(runs)):
        (tmp_path / "broken.json").write_text(content)
        env = {"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "broken.json")}
        with pytest.raises(WrongKey, match="GOOGLE_APPLICATION_CREDENTIALS"):
            await say(
                ProviderSettings("vertex", "Vertex", "vertex", "http://127.0.0.1:9" + PLACE),
                env,
                "vertex",
            )


async def test_a_prompt_that_azure_filters_ends_as_a_refusal(server: RecordedProvider) -> None:
    error = {
        "message": "The response was filtered due to the prompt triggering Azure OpenAI's content "
        "management policy.",
        "code": "content_filter",
        "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation"},
    }
    server.answers = [refusal(400, {"error": error}, {})]
    asked = request(user("hi"), model=AZURE.info)
    events = [event async for batch in AZURE.provider(server).stream(asked) for event in batch]
    assert isinstance(events[0], TextDelta)
    assert "content filter" in events[0].text
    assert events[-1] == Stopped(FinishReason.CONTENT_FILTER)


@pytest.mark.parametrize(
    ("base", "env", "target"),
    [
        ("", {}, "/openai/v1/chat/completions"),
        ("/openai/v1", {}, "/openai/v1/chat/completions"),
        (
            "?api-version=2024-10-21",
            {},
            "/openai/deployments/m-1/chat/completions?api-version=2024-10-21",
        ),
        (
            "",
            {"AZURE_OPENAI_API_VERSION": "2024-10-21"},
            "/openai/deployments/m-1/chat/completions?api-version=2024-10-21",
        ),
        (
            "/openai/deployments/mine?api-version=2024-10-21",
            {},
            "/openai/deployments/mine/chat/completions?api-version=2024-10-21",
        ),
    ],
)
async def test_azure_is_asked_where_its_version_says(
    server: RecordedProvider, base: str, env: dict[str, str], target: str
) -> None:
    server.answers = [AZURE.recorded("words")]
    settings = ProviderSettings("azure", "Azure", "azure", server.url + base, api_key="k")
    provider = provider_for(settings, env)
    async for _ in provider.stream(request(user("hi"), model=AZURE.info)):
        pass
    assert server.requests[0].target == target
    assert "max_completion_tokens" in server.requests[0].body
