"""Which addresses a server may listen on."""

import pytest
from django.core.management import CommandError

from crushsite.endpoints import EndpointError, parse_endpoint
from crushsite.exposure import check_host


@pytest.mark.parametrize(
    "host",
    [
        "tcp://127.0.0.1:22787",
        "tcp://127.9.9.9:1",
        "tcp://localhost:0",
        "tcp://[::1]:22787",
        "unix:///run/user/1/crush.sock",
    ],
)
def test_it_listens_where_only_this_machine_reaches_it(host: str) -> None:
    check_host(host)
    parse_endpoint(host)


@pytest.mark.parametrize(
    "host",
    [
        "tcp://0.0.0.0:1",
        "tcp://[::]:1",
        "tcp://192.168.1.1:1",
        "tcp://[fe80::1]:1",
        "tcp://[::ffff:192.168.1.1]:1",
        "tcp://example.com:1",
        "tcp://localhost.example.com:1",
        "tcp://:1",
        "tcp://127.1:1",
        "tcp://2130706433:1",
        "tcp://0:1",
        "tcp://user@127.0.0.1@example.com:1",
        "tcp://evil.example/127.0.0.1:1",
    ],
)
def test_it_listens_nowhere_else(host: str) -> None:
    with pytest.raises(CommandError, match="loopback"):
        check_host(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "127.0.0.1:80",
        "http//x",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:",
        "tcp://127.0.0.1:x",
        "tcp://127.0.0.1:-1",
        "tcp://127.0.0.1:99999",
        "tcp://127.0.0.1:80/path",
        "tcp://user@127.0.0.1:80",
        "tcp://127.0.0.1:80?x",
        "unix://",
        "unix://relative",
        "unix:///a\0b",
        "unix:///" + "x" * 200,
    ],
)
def test_what_is_no_address_is_refused(host: str) -> None:
    with pytest.raises(EndpointError):
        parse_endpoint(host)
