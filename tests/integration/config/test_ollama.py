import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agents.config.load import load_config
from agents.config.providers.discovery import OllamaAddress, OllamaFinder

TAGS = json.dumps({"models": [{"name": "qwen3:8b"}, {"name": "nomic-embed-text"}, {"name": 5}, {}]})


def answer(body: str, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


class Server:
    def __init__(self, pieces: list[bytes], pause: float) -> None:
        self.asked = 0
        self._pieces, self._pause = pieces, pause
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.asked += 1
            with connection:
                try:
                    connection.recv(65536)
                    for piece in self._pieces:
                        connection.sendall(piece)
                        time.sleep(self._pause)
                except OSError:
                    continue

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    @property
    def address(self) -> OllamaAddress:
        return OllamaAddress("http", "127.0.0.1", self.port)


@contextmanager
def serving(*pieces: bytes, pause: float = 0) -> Iterator[Server]:
    server = Server(list(pieces), pause)
    try:
        yield server
    finally:
        server.close()


def test_its_models_are_found_and_embeddings_left_out():
    with serving(answer(TAGS)) as server:
        models = OllamaFinder(wait_seconds=5).models(server.address)
    assert [model.id for model in models] == ["qwen3:8b"]


def test_its_answer_is_remembered():
    finder = OllamaFinder(wait_seconds=5)
    with serving(answer(TAGS)) as server:
        assert finder.models(server.address) == finder.models(server.address)
        assert server.asked == 1


@pytest.mark.parametrize(
    "reply",
    [
        answer("not json"),
        answer("[]"),
        answer('{"models": 1}'),
        answer("[" * 100_000),
        answer(TAGS, "500 Oops"),
        answer("", "302 Found\r\nLocation: http://127.0.0.1:1/"),
        b"SSH-2.0-x\r\n",
        b"",
        answer("x" * (2 << 20)),
    ],
    ids=["text", "a list", "a number", "deep", "500", "a redirect", "ssh", "nothing", "too long"],
)
def test_anything_else_that_answers_there_is_no_ollama(reply: bytes):
    with serving(reply) as server:
        assert OllamaFinder().models(server.address) is None


def test_nobody_there_is_quick():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    started = time.monotonic()
    assert OllamaFinder().models(OllamaAddress("http", "127.0.0.1", port)) is None
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    "pieces",
    [[b""], [b"H"] * 1_000, [answer("x" * 900)[:-900], *[b"x"] * 1_000]],
    ids=["silent", "slow head", "slow body"],
)
def test_a_server_that_is_silent_or_drips_is_left(pieces: list[bytes]):
    with serving(*pieces, pause=0.02 if len(pieces) > 1 else 0.5) as server:
        started = time.monotonic()
        assert OllamaFinder().models(server.address) is None
        assert time.monotonic() - started < 10


def test_a_running_ollama_is_found_without_configuration(place):
    env = {"HOME": str(place.home)}
    for _ in range(5):  # a busy machine may not answer within the short time that is waited
        with serving(answer(TAGS)) as server:
            given = {"OLLAMA_HOST": f"127.0.0.1:{server.port}"}
            loaded = load_config(str(place.workspace), env=given, server_env=env)
        large = loaded.settings.large
        if large.provider == "ollama":
            break
    assert (large.provider, large.model) == ("ollama", "qwen3:8b")
    assert loaded.settings.small.model == "qwen3:8b"
    assert loaded.public["providers"]["ollama"]["type"] == "openai-compat"


@pytest.mark.parametrize("where", ["client", "server"])
def test_it_is_not_asked_when_it_is_turned_off(place, where: str):
    off = {"CRUSH_DISABLE_OLLAMA": "1"}
    with serving(answer(TAGS)) as server:
        given = {"OLLAMA_HOST": f"127.0.0.1:{server.port}"} | (off if where == "client" else {})
        own = {"HOME": str(place.home)} | (off if where == "server" else {})
        loaded = load_config(str(place.workspace), env=given, server_env=own)
        assert loaded.settings.large.provider == "offline"
        assert server.asked == 0
