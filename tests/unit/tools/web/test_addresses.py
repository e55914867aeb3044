from ipaddress import ip_address

import pytest

from agents.tools.contract import ToolRefusal
from agents.tools.web.access import Access, is_public

PUBLIC = [
    "1.1.1.1",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.1",
    "172.15.0.1",
    "172.32.0.1",
    "223.255.255.1",
    "2606:4700::1111",
    "2a00:1450:4001:81b::200e",
    "::ffff:1.1.1.1",
    "64:ff9b::1.1.1.1",
]
PRIVATE = [
    "0.0.0.0",
    "0.1.2.3",
    "10.1.2.3",
    "100.64.0.1",
    "100.127.255.254",
    "127.0.0.1",
    "127.255.255.255",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:10.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:0808:0808::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fe80::1%eth0",
    "2606:4700::1111%eth0",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
]


@pytest.mark.parametrize("written", PUBLIC)
def test_it_knows_the_public_web(written: str) -> None:
    assert is_public(ip_address(written))
    Access().check("example.org", 443, [ip_address(written)])


@pytest.mark.parametrize("written", PRIVATE)
def test_it_knows_what_is_not_public(written: str) -> None:
    assert not is_public(ip_address(written))
    with pytest.raises(ToolRefusal, match="private network"):
        Access().check("example.org", 443, [ip_address(written)])


@pytest.mark.parametrize(
    ("entry", "host", "port", "address", "fits"),
    [
        ("*", "any.example", 80, "10.0.0.1", True),
        ("intra.example", "intra.example", 80, "10.0.0.1", True),
        ("intra.example", "INTRA.example.", 80, "10.0.0.1", True),
        ("intra.example", "evil-intra.example", 80, "10.0.0.1", False),
        ("intra.example", "intra.example.evil", 80, "10.0.0.1", False),
        ("intra.example:8080", "intra.example", 8080, "10.0.0.1", True),
        ("intra.example:8080", "intra.example", 80, "10.0.0.1", False),
        ("*.corp.example", "a.corp.example", 80, "10.0.0.1", True),
        ("*.corp.example", "corp.example", 80, "10.0.0.1", False),
        ("*.corp.example", "evilcorp.example", 80, "10.0.0.1", False),
        ("10.0.0.0/8", "any.example", 80, "10.9.9.9", True),
        ("10.0.0.0/8", "any.example", 80, "192.168.0.1", False),
        ("10.0.0.0/8", "any.example", 80, "::ffff:10.9.9.9", True),
        ("10.0.0.1/8", "any.example", 80, "10.9.9.9", True),
        ("127.0.0.1", "127.0.0.1", 80, "127.0.0.1", True),
        ("127.0.0.1:80", "127.0.0.1", 81, "127.0.0.1", False),
        ("fd00::/8", "any.example", 80, "fd00::1", True),
        ("::1", "::1", 80, "::1", True),
        ("[::1]:8080", "::1", 8080, "::1", True),
        ("[::1]:8080", "::1", 80, "::1", False),
        ("intra.example:http", "intra.example", 80, "10.0.0.1", False),
        ("10.0.0.0/99", "any.example", 80, "10.0.0.1", False),
        (":80", "any.example", 80, "10.0.0.1", False),
        ("", "any.example", 80, "10.0.0.1", False),
    ],
)
def test_configuration_lets_through_what_it_lists(
    entry: str, host: str, port: int, address: str, fits: bool
) -> None:
    access = Access([entry])
    if fits:
        access.check(host, port, [ip_address(address)])
    else:
        with pytest.raises(ToolRefusal):
            access.check(host, port, [ip_address(address)])


def test_one_private_address_is_enough_to_refuse() -> None:
    with pytest.raises(ToolRefusal):
        Access().check("example.org", 80, [ip_address("1.1.1.1"), ip_address("10.0.0.1")])
