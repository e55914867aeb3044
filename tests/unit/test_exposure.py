"""How browsers reach the server, and which names they may use."""

from typing import Any

import pytest
from django.core.management import CommandError

from crushsite.exposure import check_host, names_of, public_host, tls_context


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://crush.example.com", "crush.example.com"),
        ("https://Crush.Example.com/", "crush.example.com"),
        ("http://localhost:8080", "localhost"),
        ("https://[2001:db8::1]:8443", "2001:db8::1"),
        ("", ""),
    ],
)
def test_the_host_of_a_public_host(url: str, host: str) -> None:
    assert public_host(url) == host


@pytest.mark.parametrize(
    "url",
    [
        "crush.example.com",
        "ftp://crush.example.com",
        "https://",
        "https://crush.example.com/path",
        "https://crush.example.com?x",
        "https://user@crush.example.com",
        "https://crush.example.com:port",
    ],
)
def test_a_wrong_public_host_is_refused(url: str) -> None:
    with pytest.raises(CommandError, match="CRUSH_PUBLIC_URL"):
        public_host(url)


def test_another_address_needs_certificates_or_a_declared_proxy(settings: Any) -> None:
    with pytest.raises(CommandError, match="CRUSH_TLS_CERTIFICATE"):
        check_host("tcp://0.0.0.0:1")
    settings.CRUSH_PUBLIC_URL = "https://crush.example.com"
    with pytest.raises(CommandError):
        check_host("tcp://0.0.0.0:1")
    settings.CRUSH_TRUSTED_PROXIES = ("10.0.0.1",)
    check_host("tcp://0.0.0.0:1")
    settings.CRUSH_PUBLIC_URL, settings.CRUSH_TRUSTED_PROXIES = "", ()
    settings.CRUSH_TLS_CERTIFICATE = "cert.pem"
    check_host("tcp://0.0.0.0:1")


def test_the_names_of_the_server(settings: Any) -> None:
    assert names_of("tcp://127.0.0.1:1") == frozenset()
    assert names_of("unix:///s") == frozenset()
    settings.CRUSH_PUBLIC_URL = "https://crush.example.com"
    assert names_of("tcp://127.0.0.1:1") == {"crush.example.com"}
    assert {"crush.example.com", "192.0.2.7"} <= names_of("tcp://192.0.2.7:1")
    assert "[2001:db8::1]" in names_of("tcp://[2001:db8::1]:1")


def test_a_key_without_a_certificate_is_refused(settings: Any) -> None:
    assert tls_context() is None
    settings.CRUSH_TLS_KEY = "key.pem"
    with pytest.raises(CommandError, match="CRUSH_TLS_KEY"):
        tls_context()
    settings.CRUSH_TLS_CERTIFICATE = "no-such.pem"
    with pytest.raises(CommandError, match=r"no-such\.pem"):
        tls_context()
