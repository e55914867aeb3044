"""Requests that are forwarded to a worker, and their answers, as values and as JSON. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from workspaces.access import Identity, IdentityKind, MemberRole, Right

# In bytes. Redis closes the connection of a subscriber that is 32 MB behind.
LONGEST_BODY = 1 << 20
LONGEST_TEXT = 16_384
MOST_HEADERS = 50
MOST_WORKSPACES = 100_000
# In base64, with the rest of the message.
LONGEST_MESSAGE = 2 * LONGEST_BODY
MISDIRECTED = 421  # another worker is the home of the workspace; the web process looks again
ACCEPTED = 102  # the status of a message before the answer: the worker performs the request

Headers = tuple[tuple[str, str], ...]
T = TypeVar("T")


class BadMessage(ValueError):
    """A message is not what it should be. It contains nothing of the message."""


@dataclass(frozen=True, slots=True)
class ForwardedRequest:
    """An HTTP request, whose caller has the right that its address needs."""

    id: str
    worker: str  # as it is registered: no other one performs the request
    answer_to: str  # the channel of the web process
    expires_at: int  # milliseconds: its sender waits no longer
    method: str
    path: str  # as it was sent, undecoded
    query: str
    headers: Headers
    identity: Identity
    address: str
    is_tool: bool
    client_id: str
    body: bytes = field(repr=False, default=b"")
    workspace_id: str = ""  # its worker must be the home of it; empty if it is to be made


@dataclass(frozen=True, slots=True)
class ForwardedAnswer:
    id: str
    status: int
    headers: Headers
    body: bytes = field(repr=False, default=b"")


def encode_request(request: ForwardedRequest) -> str:
    """Raises ``BadMessage`` only for what JSON cannot contain. Decode it to check the rest."""
    who = request.identity
    fields = {
        "id": request.id,
        "worker": request.worker,
        "answer_to": request.answer_to,
        "expires_at": request.expires_at,
        "method": request.method,
        "path": request.path,
        "query": request.query,
        "headers": request.headers,
        "address": request.address,
        "is_tool": request.is_tool,
        "client_id": request.client_id,
        "body": _packed(request.body),
        "workspace_id": request.workspace_id,
        "identity": {
            "kind": who.kind,
            "name": who.name,
            "user_id": who.user_id,
            "is_staff": who.is_staff,
            "roles": dict(who.roles),
            "scopes": None if who.scopes is None else sorted(who.scopes),
            "workspaces": None if who.workspaces is None else sorted(who.workspaces),
            "token_id": who.token_id,
        },
    }
    return _written(fields)


def decode_request(text: str) -> ForwardedRequest:
    """Raises ``BadMessage``."""
    fields = _object(text)
    return ForwardedRequest(
        id=_text(fields, "id"),
        worker=_text(fields, "worker"),
        answer_to=_text(fields, "answer_to"),
        expires_at=_typed(fields, "expires_at", int),
        method=_text(fields, "method"),
        path=_text(fields, "path"),
        query=_text(fields, "query"),
        headers=_headers(fields),
        identity=_identity(_typed(fields, "identity", dict)),
        address=_text(fields, "address"),
        is_tool=_typed(fields, "is_tool", bool),
        client_id=_text(fields, "client_id"),
        body=_unpacked(fields),
        # Web processes of an earlier release send none.
        workspace_id=_text({"workspace_id": "", **fields}, "workspace_id"),
    )


def encode_answer(answer: ForwardedAnswer) -> str:
    """Raises ``BadMessage``, as ``encode_request`` does."""
    fields = {
        "id": answer.id,
        "status": answer.status,
        "headers": answer.headers,
        "body": _packed(answer.body),
    }
    return _written(fields)


def decode_answer(text: str) -> ForwardedAnswer:
    """Raises ``BadMessage``."""
    fields = _object(text)
    status = _typed(fields, "status", int)
    if status != ACCEPTED and not 200 <= status <= 599:
        raise BadMessage("status")
    return ForwardedAnswer(_text(fields, "id"), status, _headers(fields), _unpacked(fields))


def _written(fields: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(fields).decode()
    except orjson.JSONEncodeError:
        raise BadMessage("no JSON") from None


def _object(text: str) -> Mapping[str, Any]:
    if len(text) > LONGEST_MESSAGE:
        raise BadMessage("too long")
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise BadMessage("no JSON") from None
    if not isinstance(fields, dict):
        raise BadMessage("no object")
    return fields


def _typed(fields: Mapping[str, Any], name: str, kind: type[T]) -> T:
    value = fields.get(name)
    if type(value) is not kind:  # a bool is no number here
        raise BadMessage(name)
    return value


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = _typed(fields, name, str)
    if len(value) > LONGEST_TEXT:
        raise BadMessage(name)
    return value


def _headers(fields: Mapping[str, Any]) -> Headers:
    rows = _typed(fields, "headers", list)
    if len(rows) > MOST_HEADERS:
        raise BadMessage("headers")
    return tuple(_header(row) for row in rows)


def _header(row: Any) -> tuple[str, str]:
    if not isinstance(row, list) or len(row) != 2:
        raise BadMessage("headers")
    name, value = row
    for part in (name, value):
        if not isinstance(part, str) or len(part) > LONGEST_TEXT:
            raise BadMessage("headers")
        if not part.isascii() or not part.isprintable():
            raise BadMessage("headers")
    return name, value


def _identity(fields: Mapping[str, Any]) -> Identity:
    user_id, roles = fields.get("user_id"), _typed(fields, "roles", dict)
    if (user_id is not None and type(user_id) is not int) or len(roles) > MOST_WORKSPACES:
        raise BadMessage("identity")
    try:
        return Identity(
            IdentityKind(_text(fields, "kind")),
            name=_text(fields, "name"),
            user_id=user_id,
            is_staff=_typed(fields, "is_staff", bool),
            roles={key: MemberRole(role) for key, role in roles.items()},
            scopes=_set_of(fields, "scopes", Right),
            workspaces=_set_of(fields, "workspaces", str),
            token_id=_text(fields, "token_id"),
        )
    except ValueError:
        raise BadMessage("identity") from None


def _set_of(fields: Mapping[str, Any], name: str, kind: type[T]) -> frozenset[T] | None:
    if fields.get(name) is None:
        return None
    values = _typed(fields, name, list)
    if len(values) > MOST_WORKSPACES or not all(isinstance(value, str) for value in values):
        raise BadMessage(name)
    return frozenset(kind(value) for value in values)  # type: ignore[call-arg]  # of a text


def _packed(body: bytes) -> str:
    return base64.b64encode(body).decode()


def _unpacked(fields: Mapping[str, Any]) -> bytes:
    try:
        body = base64.b64decode(_typed(fields, "body", str), validate=True)
    except (binascii.Error, ValueError):
        raise BadMessage("body") from None
    if len(body) > LONGEST_BODY:
        raise BadMessage("body")
    return body
