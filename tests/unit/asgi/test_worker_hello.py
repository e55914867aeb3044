"""What a remote worker announces in the query of its handshake."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from agents.fleet.parent.joined import WorkerHello
from crushsite.asgi import worker_socket
from crushsite.asgi.worker_socket import MOST_CONNECTIONS, MOST_ROOTS, WireTooOld, read_hello
from crushsite.child import joining
from workspaces.log.errors import BadField
from workspaces.placement.remote_place import RemotePlace

HELLO = {
    "wire": "1",
    "name": "box",
    "instance": "abc123",
    "capacity": "4",
    "root": "src",
    "roots": ["src", "docs"],
}


def query(**changed: object) -> bytes:
    fields = {name: value for name, value in (HELLO | changed).items() if value is not None}
    return urlencode(fields, doseq=True).encode()


def test_a_hello_names_the_worker_its_folders_and_the_place_of_the_connection() -> None:
    hello, place = read_hello(query())
    assert hello == WorkerHello("box", "abc123", ("src", "docs"), 4)
    assert place == RemotePlace("box", "src")


def test_the_worker_and_the_server_of_a_version_have_the_same_wire() -> None:
    assert joining.WIRE == worker_socket.WIRE


def test_an_older_wire_is_refused_with_advice_and_a_newer_one_is_not() -> None:
    with pytest.raises(WireTooOld, match="Update it"):
        read_hello(query(wire="0"))
    read_hello(query(wire="2"))


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "Box"},
        {"name": "box:x"},
        {"name": None},
        {"name": ["a", "b"]},
        {"root": "other"},
        {"root": "../src", "roots": ["../src"]},
        {"roots": ["src", "a/b"]},
        {"roots": ["src", *(f"r{number}" for number in range(MOST_ROOTS))]},
        {"instance": "a b"},
        {"instance": "x" * 65},
        {"instance": ""},
        {"capacity": "0"},
        {"capacity": str(MOST_CONNECTIONS + 1)},
        {"capacity": "1e3"},
        {"capacity": "\u0661"},
        {"wire": None},
        {"wire": "one"},
    ],
    ids=str,
)
def test_a_malformed_hello_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(BadField):
        read_hello(query(**changed))


def test_more_fields_than_any_worker_sends_are_refused() -> None:
    with pytest.raises(BadField):
        read_hello(query() + b"&x=1" * 1_000)
