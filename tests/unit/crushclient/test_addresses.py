"""Where a server is, and to whom a token may be sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crushclient import Client, ConnectionFailed, UnsafeAddress
from crushclient.addresses import SOCKET_HOST, Address, local_address, parse_address


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8000/", Address("http://127.0.0.1:8000")),
        ("https://crush.example.com/base/", Address("https://crush.example.com/base")),
        ("https://[::1]:8443", Address("https://[::1]:8443")),
        ("unix:///run/crush.sock", Address(f"http://{SOCKET_HOST}", "/run/crush.sock")),
    ],
)
def test_addresses(url: str, expected: Address) -> None:
    assert parse_address(url) == expected


@pytest.mark.parametrize(
    "url",
    ["", "crush.example.com", "ftp://a", "http://", "http://a:b@c", "http://a:99999", "unix://relative", "http://a?b", "http://a:0"],
)  # fmt: skip
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(UnsafeAddress):
        parse_address(url)


@pytest.mark.parametrize(
    "url",
    ["https://crush.example.com", "http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1", "unix:///s"],
)  # fmt: skip
def test_a_token_is_sent_encrypted_or_within_the_machine(url: str) -> None:
    Client(url, token="crush_secret")


@pytest.mark.parametrize(
    "url", ["http://crush.example.com", "http://10.0.0.1", "http://localhost.evil.example"]
)
def test_a_token_is_not_sent_in_the_open(url: str) -> None:
    with pytest.raises(UnsafeAddress) as caught:
        Client(url, token="crush_secret")
    assert "crush_secret" not in str(caught.value)
    Client(url)
    Client(url, token="crush_secret", allow_unencrypted=True)


def test_the_local_server_is_found_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRUSH_DATA_DIR", str(tmp_path))
    with pytest.raises(ConnectionFailed, match="no server runs"):
        local_address()
    (tmp_path / "server.json").write_text(json.dumps({"url": "unix:///s", "pid": 1}))
    assert local_address() == "unix:///s"
    assert Client.local().url == "unix:///s"
    (tmp_path / "server.json").write_text("{")
    with pytest.raises(ConnectionFailed):
        local_address()
