"""The token of CRUSH_METRICS_TOKEN_FILE opens `/metrics`, needs no database, and opens nothing else."""

from pathlib import Path
from typing import Any

import pytest

from crushsite.asgi.identify import METRICS_READER, Identification
from workspaces.access import IdentityKind, Right

TOKEN = "a-token-of-the-operator"


async def identity_at(path: str, *headers: tuple[bytes, bytes], token: str = TOKEN) -> Any:
    edge = Identification(servers=tuple, folder=Path(), metrics_token=token)
    found = await edge.caller_of({"path": path, "headers": list(headers), "extensions": {}})
    return found.identity


def bearer(text: str) -> tuple[bytes, bytes]:
    return (b"authorization", f"Bearer {text}".encode())


async def test_the_token_identifies_at_its_path() -> None:
    assert await identity_at("/metrics", bearer(TOKEN)) is METRICS_READER
    assert METRICS_READER.may(Right.ADMINISTER)
    assert not METRICS_READER.may(Right.READ)


@pytest.mark.parametrize("path", ["/metrics/", "/v1/control", "/api/users", "/"])
async def test_it_is_an_unknown_token_elsewhere(path: str) -> None:
    found = await identity_at(path, bearer(TOKEN))
    assert found.kind is IdentityKind.ANONYMOUS


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (bearer("another"),),
        (bearer(TOKEN + "x"),),
        (bearer(""),),
        (bearer(TOKEN), bearer("another")),
    ],
)
async def test_a_request_without_the_token_has_no_identity(
    headers: tuple[tuple[bytes, bytes], ...],
) -> None:
    assert (await identity_at("/metrics", *headers)).kind is IdentityKind.ANONYMOUS


async def test_without_the_setting_no_token_is_accepted() -> None:
    for text in ("", TOKEN):
        found = await identity_at("/metrics", bearer(text), token="")
        assert found.kind is IdentityKind.ANONYMOUS
