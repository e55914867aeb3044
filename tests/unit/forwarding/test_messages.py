"""Forwarded requests and answers: what is encoded is decoded, and everything else is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from crushsite.forwarding.messages import (
    LONGEST_BODY,
    LONGEST_MESSAGE,
    MOST_HEADERS,
    BadMessage,
    ForwardedAnswer,
    ForwardedRequest,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
)
from workspaces.access import EVERYWHERE, OWNER, Identity, IdentityKind, MemberRole, Right

ANN = Identity(
    IdentityKind.TOKEN,
    name="ann",
    user_id=7,
    roles={"w": MemberRole.ADMIN, EVERYWHERE: MemberRole.VIEWER},
    scopes=frozenset({Right.READ, Right.SHELL}),
    workspaces=frozenset({"w"}),
    token_id="t",
)
REQUEST = ForwardedRequest(
    id="r",
    worker="v",
    answer_to="c",
    expires_at=5,
    method="POST",
    path="/v1/workspaces/w/config/set",
    query="a=%20",
    headers=(("content-type", "application/json"),),
    identity=ANN,
    address="192.0.2.7",
    is_tool=True,
    client_id="client",
    body=b"\xff\x00{}",
    workspace_id="shop",
)
ANSWER = ForwardedAnswer("r", 200, (("etag", '"1"'),), b"\xffbody")


@pytest.mark.parametrize("identity", [ANN, OWNER, Identity(IdentityKind.USER, scopes=frozenset())])
def test_a_request_is_decoded_as_it_was(identity: Identity) -> None:
    request = replace(REQUEST, identity=identity)
    assert decode_request(encode_request(request)) == request


def test_a_request_of_an_earlier_release_names_no_workspace() -> None:
    fields = orjson.loads(encode_request(REQUEST))
    del fields["workspace_id"]
    assert decode_request(orjson.dumps(fields).decode()) == replace(REQUEST, workspace_id="")


def test_an_answer_is_decoded_as_it_was() -> None:
    assert decode_answer(encode_answer(ANSWER)) == ANSWER


def test_neither_shows_its_body() -> None:
    assert "{}" not in repr(REQUEST)
    assert "body" not in repr(ANSWER)


@pytest.mark.parametrize("text", ["", "null", "[]", "{", '"x"', "{}", " " * (LONGEST_MESSAGE + 1)])
def test_what_is_no_message_is_refused(text: str) -> None:
    for decode in (decode_request, decode_answer):
        with pytest.raises(BadMessage):
            decode(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", 7),
        ("id", "x" * 20_000),
        ("worker", None),
        ("expires_at", "5"),
        ("expires_at", True),
        ("is_tool", 1),
        ("is_tool", None),
        ("headers", {}),
        ("headers", [["a"]]),
        ("headers", [["a", 1]]),
        ("headers", [["a", "x\r\nset-cookie: y"]]),
        ("headers", [["a", "é"]]),
        ("headers", [["a", "b"]] * (MOST_HEADERS + 1)),
        ("body", "no base64!"),
        ("body", None),
        ("identity", None),
    ],
)
def test_a_request_with_a_wrong_field_is_refused(name: str, value: Any) -> None:
    fields = orjson.loads(encode_request(REQUEST)) | {name: value}
    with pytest.raises(BadMessage) as caught:
        decode_request(orjson.dumps(fields).decode())
    assert "x" * 100 not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kind", "root"),
        ("user_id", "7"),
        ("user_id", True),
        ("is_staff", "yes"),
        ("roles", []),
        ("roles", {"w": "king"}),
        ("roles", {"w": 1}),
        ("scopes", ["fly"]),
        ("scopes", [1]),
        ("scopes", "read"),
        ("workspaces", {"w": 1}),
    ],
)
def test_a_request_of_a_wrong_identity_is_refused(name: str, value: Any) -> None:
    fields = orjson.loads(encode_request(REQUEST))
    fields["identity"] |= {name: value}
    with pytest.raises(BadMessage):
        decode_request(orjson.dumps(fields).decode())


@pytest.mark.parametrize("status", [0, 100, 199, 600, True, "200"])
def test_an_answer_with_a_wrong_status_is_refused(status: Any) -> None:
    fields = orjson.loads(encode_answer(ANSWER)) | {"status": status}
    with pytest.raises(BadMessage):
        decode_answer(orjson.dumps(fields).decode())


def test_a_body_that_is_too_long_is_refused() -> None:
    long = encode_answer(replace(ANSWER, body=bytes(LONGEST_BODY + 1)))
    with pytest.raises(BadMessage):
        decode_answer(long)
    assert decode_answer(encode_answer(replace(ANSWER, body=bytes(LONGEST_BODY)))).status == 200
