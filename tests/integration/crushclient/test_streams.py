"""The stream of the client against a server that ends connections in every way."""

from __future__ import annotations

import asyncio

import pytest

from crushclient import (
    AuthenticationError,
    Client,
    CommandUnconfirmed,
    ConflictError,
    ConnectionFailed,
    LogEvent,
    NotFoundError,
    RetryPolicy,
    StreamClosed,
    StreamLive,
    StreamLost,
)
from crushclient import stream as stream_module
from tests.integration.crushclient.conftest import (
    HASTY,
    FakeServer,
    Session,
    closing_with,
    hang_up,
    json_answer,
    socket_answer,
)


def event(number: int) -> dict[str, object]:
    return {"number": number, "type": "config.changed", "data": {"workspace_id": "w"}}


async def until_idle(session: Session) -> None:
    """Waits until the client leaves."""
    await session.socket.receive()


@pytest.mark.parametrize("code", [1012, 1011, 4008, 1000])
async def test_a_stream_continues_at_its_cursor_after_every_ordinary_end(
    client: Client, server: FakeServer, code: int
) -> None:
    queries = []

    async def first(session: Session) -> None:
        queries.append(session.query)
        await session.opened(3)
        await session.send(event(4), event(5))
        await session.socket.close(code=code)

    async def second(session: Session) -> None:
        queries.append(session.query)
        await session.send(event(5), event(6))
        await session.opened(6)
        await until_idle(session)

    server.answers = [socket_answer(first), socket_answer(second)]
    async with client.stream("w", after=3, client_id="c") as stream:
        items = [await anext(stream) for _ in range(6)]
        assert stream.cursor == 6
    assert [item.number for item in items if isinstance(item, LogEvent)] == [4, 5, 6]
    assert [type(item) for item in items].count(StreamLost) == 1
    assert queries == [{"after": "3", "client_id": "c"}, {"after": "5", "client_id": "c"}]


@pytest.mark.parametrize(("code", "kind"), [(4401, AuthenticationError), (4409, ConflictError)])
async def test_a_stream_ends_for_good_when_it_may_not_return(
    client: Client, server: FakeServer, code: int, kind: type[Exception]
) -> None:
    server.answers = [closing_with(code)]
    async with client.stream("w", after=0) as stream:
        assert await anext(stream) == StreamLive(0)
        with pytest.raises(kind):
            await anext(stream)
        with pytest.raises(kind):
            await stream.prompt("s", "too late")
    assert len(server.requests) == 1


async def test_a_refused_handshake_has_the_sentence_of_the_server(
    client: Client, server: FakeServer
) -> None:
    server.answers = [json_answer({"code": "workspace_unknown", "detail": "not here"}, 404)]
    with pytest.raises(NotFoundError, match="not here") as caught:
        async with client.stream("w"):
            pass
    assert caught.value.code == "workspace_unknown"


async def test_a_closed_workspace_is_opened_again_for_a_client_with_a_path(
    client: Client, server: FakeServer
) -> None:
    async def talk(session: Session) -> None:
        await session.opened(0)
        await until_idle(session)

    refused = json_answer({"code": "workspace_unknown"}, 404)
    server.answers = [refused, refused, json_answer({"id": "w", "path": "/p"}), socket_answer(talk)]
    async with client.stream("w", client_id="c", path="/p") as stream:
        assert await anext(stream) == StreamLive(0)
    assert [each.path for each in server.requests][2] == "/v1/workspaces"
    assert server.bodies[2] == b'{"path":"/p","client_id":"c"}'


async def test_a_silent_connection_is_left(client: Client, server: FakeServer) -> None:
    async def silent(session: Session) -> None:
        await session.opened(0)
        await until_idle(session)

    server.answers = [socket_answer(silent)]
    async with client.stream("w", after=0) as stream:
        kinds = [type(await anext(stream)) for _ in range(3)]
    assert kinds == [StreamLive, StreamLost, StreamLive]


async def test_heartbeats_keep_a_connection(client: Client, server: FakeServer) -> None:
    async def beating(session: Session) -> None:
        await session.opened(0)
        for _ in range(8):
            await asyncio.sleep(0.1)
            await session.send()
        await session.send(event(1))
        await until_idle(session)

    server.answers = [socket_answer(beating)]
    async with client.stream("w", after=0) as stream:
        assert [type(await anext(stream)) for _ in range(2)] == [StreamLive, LogEvent]


@pytest.mark.parametrize(
    "retry", [RetryPolicy(first_seconds=0.001, limit_seconds=0.01, give_up_seconds=0.1)]
)
async def test_a_stream_gives_up_when_it_should(client: Client, server: FakeServer) -> None:
    server.answers = [closing_with(1012), hang_up]
    async with client.stream("w", after=0) as stream:
        with pytest.raises(ConnectionFailed):
            [item async for item in stream]


async def test_a_gap_is_read_again(client: Client, server: FakeServer) -> None:
    async def gap(session: Session) -> None:
        await session.opened(1)
        await session.send(event(3))
        await until_idle(session)

    async def whole(session: Session) -> None:
        assert session.query == {"after": "1"}
        await session.send(event(2), event(3))
        await session.opened(3)
        await until_idle(session)

    server.answers = [socket_answer(gap), socket_answer(whole)]
    async with client.stream("w", after=1) as stream:
        items = [await anext(stream) for _ in range(4)]
    assert [item.number for item in items if isinstance(item, LogEvent)] == [2, 3]


async def test_a_prompt_without_a_reply_is_sent_again_as_the_same_run(
    client: Client, server: FakeServer
) -> None:
    commands = []

    async def ends(session: Session) -> None:
        await session.opened(0)
        commands.append(await session.command())

    async def busy(session: Session) -> None:
        await session.opened(0)
        commands.append(await session.command())
        await session.reply(commands[-1], ok=False, code="shutting_down", message="later")
        commands.append(await session.command())
        await session.reply(commands[-1])
        await until_idle(session)

    server.answers = [socket_answer(ends), socket_answer(busy)]
    async with client.stream("w", after=0) as stream:
        run_id = await stream.prompt("s", "hello", strategy="steer")
    bodies = [{k: v for k, v in each.items() if k != "id"} for each in commands]
    assert (
        bodies
        == [
            {
                "command": "prompt",
                "session_id": "s",
                "text": "hello",
                "run_id": run_id,
                "strategy": "steer",
            }
        ]
        * 3
    )


async def test_a_command_that_may_not_be_repeated_is_unconfirmed(
    client: Client, server: FakeServer
) -> None:
    async def ends(session: Session) -> None:
        await session.opened(0)
        await session.command()

    server.answers = [socket_answer(ends)]
    async with client.stream("w", after=0) as stream:
        with pytest.raises(CommandUnconfirmed):
            await stream.command("dismiss_questions")
        with pytest.raises(CommandUnconfirmed):
            await stream.command("ping", seconds=0.01, is_repeatable=True)
    with pytest.raises(StreamClosed):
        await stream.ping()


async def test_a_refused_command_is_an_error_with_its_code(
    client: Client, server: FakeServer
) -> None:
    async def refusing(session: Session) -> None:
        await session.opened(0)
        while True:
            command = await session.command()
            code = "session_unknown" if command["command"] == "cancel" else "run_id_taken"
            await session.reply(command, ok=False, code=code, message="because")

    server.answers = [socket_answer(refusing)]
    async with client.stream("w", after=0) as stream:
        with pytest.raises(NotFoundError, match="because"):
            await stream.cancel("s")
        with pytest.raises(ConflictError) as caught:
            await stream.prompt("s", "hello", run_id="r")
    assert caught.value.code == "run_id_taken"


async def test_replies_arrive_while_nobody_takes_the_items(
    client: Client, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = stream_module.MOST_WAITING + 5000

    async def flooding(session: Session) -> None:
        await session.opened(0)
        for start in range(1, many + 1, 500):
            await session.send(*map(event, range(start, min(start + 500, many + 1))))
        command = await session.command()
        await session.reply(command, data={"resolved": True})
        await until_idle(session)

    server.answers = [socket_answer(flooding)]
    async with client.stream("w", after=0) as stream:
        assert await stream.answer("p", "allow") is True
        numbers = []
        while len(numbers) < many:
            item = await anext(stream)
            if isinstance(item, LogEvent):
                numbers.append(item.number)
    assert numbers == list(range(1, many + 1))


async def test_closing_ends_the_iteration(client: Client, server: FakeServer) -> None:
    async def talk(session: Session) -> None:
        await session.opened(0)
        await until_idle(session)

    server.answers = [socket_answer(talk)]
    async with client.stream("w", after=0) as stream:
        closing = asyncio.get_running_loop().call_later(
            0.05, lambda: asyncio.ensure_future(stream.close())
        )
        assert [type(item) async for item in stream] == [StreamLive]
        closing.cancel()


def test_the_default_tries_forever() -> None:
    assert RetryPolicy().give_up_seconds is None
    pauses = [HASTY.pause(failures) for failures in range(1, 40)]
    assert max(pauses) <= HASTY.limit_seconds
    assert RetryPolicy().pause(1, retry_after_seconds=7) == 7
