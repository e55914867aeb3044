"""What a model does wrong: it is asked again where that may help, else everyone is told once."""

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.conversation import (
    CANCELLED_PAIR,
    SHORT,
    roles_and_finishes,
    take_seat,
    text_of,
)
from tests.acceptance.folding import Fold
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.native import NativeSocket, NativeSse
from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.project import configuration
from tests.acceptance.harness.shapes import Server
from tests.acceptance.transcripts import request_times, requests_sent

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]

ENDED_PAIR = [("user", "stop"), ("assistant", "end_turn")]


def words(count: int) -> str:
    return "".join(f"word{n} " for n in range(count))


@pytest.mark.parametrize("status", [429, 503])
async def test_it_waits_for_the_providers_retry_after_and_then_succeeds(
    shared_server: Server,
    connect: Connect,
    project: MakeProject,
    model: ScriptedModel,
    status: int,
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    script = f"[[status={status} retry_after=2 times=1 n=5]]"
    await seat.workspace.prompt(session, f"{mark} {script}", "one")
    complete = await seat.stream.run_complete(session, "one")
    assert complete["text"] == words(5)
    first, second = request_times(model, mark)
    assert second - first >= 2
    assert seat.stream.errors() == []
    assert roles_and_finishes(await seat.workspace.messages(session)) == ENDED_PAIR


async def test_it_retries_after_failures_of_the_provider(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    await seat.workspace.prompt(session, f"{mark} [[status=500 times=2 n=5]]", "one")
    complete = await seat.stream.run_complete(session, "one")
    assert complete["text"] == words(5)
    assert "error" not in complete
    assert len(requests_sent(model, mark)) == 3
    assert seat.stream.errors() == []
    assert roles_and_finishes(await seat.workspace.messages(session)) == ENDED_PAIR


async def test_a_waiting_retry_is_shown_to_every_client(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(shared_server)
    seat = await take_seat(client, project())
    feed = await NativeSse(client.http, seat.workspace.id, after=0).open()
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, "[[status=429 retry_after=100]]", "one")
    native = (await feed.wait_for(lambda e: e.type == "message.restarted")).body["data"]["retry"]
    assert (native["attempt"], native["attempts"]) == (2, 6)
    assert 100 <= native["delay_seconds"] <= 101
    assert "limits the rate" in native["reason"]
    event = await seat.stream.wait_for(lambda e: e.type == "agent_event")
    assert (event.payload["type"], event.payload["retry"]) == ("retry", native)
    await feed.close()
    await seat.workspace.cancel(session)
    await seat.stream.run_complete(session, "one")


async def test_an_interrupted_reply_is_retried_and_never_doubled(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    client = connect(shared_server)
    seat = await take_seat(client, project())
    feeds = [
        await NativeSse(client.http, seat.workspace.id, after=0).open(),
        await NativeSocket(client.http, seat.workspace.id, after=0).open(),
    ]
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    script = "[[reason=3 cut=60 times=2 n=80 d=2]]"
    await seat.workspace.prompt(session, f"{mark} {script}", "one")
    complete = await seat.stream.run_complete(session, "one")
    assert complete["text"] == words(80)
    (_, reply) = await seat.workspace.messages(session)
    assert text_of(reply) == words(80)
    assert [part["type"] for part in reply["parts"]] == ["reasoning", "text", "finish"]
    assert reply["parts"][0]["data"]["thinking"] == "think0 think1 think2 "
    assert len(requests_sent(model, mark)) == 3
    # On this wire each event has the whole message: begun anew, it becomes shorter.
    shown = [e.text for e in seat.stream.of("message", session) if e.payload["role"] == "assistant"]
    assert all(words(80).startswith(text) for text in shown), shown
    resets = [n for n in range(1, len(shown)) if len(shown[n]) < len(shown[n - 1])]
    assert len(resets) <= 2  # words that come together with the restart are not shown before it
    begun = [e for e in seat.stream.of("message", session) if e.payload["parts"] == []]
    assert len(begun) == 3  # its start and both restarts are told
    assert len({e.payload["id"] for e in seat.stream.of("message", session)}) == 2
    # On the native wire the deltas fold to the same, and no word is told twice.
    for feed in feeds:
        last = await feed.wait_for(lambda e: e.type == "run.finished")
        fold = Fold()
        for item in feed.received[: feed.received.index(last) + 1]:
            fold.take(item.body)
        (_, folded) = fold.messages_of(session)
        assert folded == reply
        restarts = [e for e in feed.received if e.type == "message.restarted"]
        assert [e.body["data"]["message"]["parts"] for e in restarts] == [[], []]
        await feed.close()
    assert seat.stream.errors() == []


PERMANENT = {
    "a wrong key": ("[[status=401]]", "refused the API key"),
    "an unknown model": ("[[status=404]]", "has no model 'fake-large'"),
    "a refused request": ("[[status=400]]", "bad request"),
    "a wait too long": ("[[status=429 retry_after=3600]]", "limits the rate"),
}


@pytest.mark.parametrize("kind", PERMANENT)
async def test_a_permanent_error_is_reported_once_to_every_client(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel, kind: str
) -> None:
    script, sentence = PERMANENT[kind]
    client, path = connect(shared_server), project()
    seat, other = await take_seat(client, path), await take_seat(client, path)
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    await seat.workspace.prompt(session, f"{mark} {script}", "one")
    messages = []
    for stream in (seat.stream, other.stream):
        complete = await stream.run_complete(session, "one")
        messages = await seat.workspace.messages(session)
        assert sentence in complete["error"]
        assert complete["message_id"] == messages[-1]["id"]
        assert "cancelled" not in complete
        (error,) = [e.payload for e in stream.of("agent_event") if e.payload["type"] == "error"]
        assert error["error"] == complete["error"]
        assert error["session_id"] == session
        assert error["run_id"] == "one"
        assert [e for e in stream.of("agent_event") if e.payload["type"] == "agent_finished"] == []
    assert roles_and_finishes(messages) == [("user", "stop"), ("assistant", "error")]
    finish = messages[-1]["parts"][-1]["data"]
    assert sentence in finish["message"]
    # Clients cut the message to a line; what to do stands below it.
    assert len(finish["message"]) <= 80
    assert finish["message"].rstrip(".") in complete["error"]
    assert complete["error"].endswith(finish["details"])
    assert "sk-fake" not in str(seat.stream.events)
    assert len(requests_sent(model, mark)) == 1
    assert (await seat.workspace.get_session(session))["is_busy"] is False
    # The session is usable afterwards, and its history is one that models accept.
    await seat.workspace.prompt(session, "after [[n=5 times=0]]", "two")
    assert (await seat.stream.run_complete(session, "two"))["text"] == words(5)
    assert len(seat.stream.errors()) == 2  # the event and the end of the first run


async def test_a_cancel_ends_the_pause_before_a_retry(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    client = connect(shared_server)
    seat = await take_seat(client, project())
    feed = await NativeSse(client.http, seat.workspace.id, after=0).open()
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    await seat.workspace.prompt(session, f"{mark} [[status=429 retry_after=100]]", "one")
    await feed.wait_for(lambda e: e.type == "message.restarted")
    await seat.workspace.cancel(session)
    complete = await seat.stream.run_complete(session, "one")
    assert complete["cancelled"] is True
    assert "error" not in complete
    assert len(requests_sent(model, mark)) == 1
    assert seat.stream.errors() == []
    assert roles_and_finishes(await seat.workspace.messages(session)) == CANCELLED_PAIR
    await feed.close()


async def test_an_unreachable_provider_is_named_after_some_retries(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    wrong = configuration(f"http://127.0.0.1:{free_port()}/v1")
    seat = await take_seat(connect(shared_server), project(**wrong))
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, SHORT, "one")
    complete = await seat.stream.run_complete(session, "one", 60)
    assert "cannot be reached" in complete["error"]
    assert wrong["providers"]["fake"]["base_url"] in complete["error"]
    assert len(seat.stream.errors()) == 2
    assert roles_and_finishes(await seat.workspace.messages(session)) == [
        ("user", "stop"),
        ("assistant", "error"),
    ]


@pytest.mark.parametrize("broken", ["an unknown provider", "an unset variable", "a broken file"])
async def test_an_unusable_model_choice_fails_with_the_reason_until_it_is_corrected(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel, broken: str
) -> None:
    mark, wrong = uuid.uuid4().hex, configuration(model.base_url)
    if broken == "an unset variable":
        wrong["providers"]["fake"]["api_key"] = "$MISSING_KEY"
    elif broken == "an unknown provider":
        wrong["models"]["large"]["provider"] = "gone"
    path = project(**wrong)
    if broken == "a broken file":
        (path / "crush.json").write_text('{\n  "providers": nonsense\n}')
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, f"{mark} hello", "one")
    complete = await seat.stream.run_complete(session, "one")
    reasons = {
        "an unknown provider": "providers.gone is not configured",
        "an unset variable": "$MISSING_KEY is not set",
        "a broken file": f"{path}/crush.json:2:16: it is not JSON",
    }
    assert reasons[broken] in complete["error"]
    assert "text" not in complete
    assert requests_sent(model, mark) == []  # never another provider than the one that was chosen
    seat.workspace.configure(configuration(model.base_url))
    await seat.workspace.prompt(session, f"{mark} {SHORT}", "two")
    assert (await seat.stream.run_complete(session, "two"))["text"] == words(5)


@pytest.mark.server_env(CRUSH_MODEL_SILENCE="3")
@pytest.mark.parametrize("silent_phase", ["silent", "hang", "stall=2"])
async def test_a_request_to_a_silent_provider_times_out_and_is_retried(
    embedded_server: Server,
    connect: Connect,
    project: MakeProject,
    model: ScriptedModel,
    silent_phase: str,
) -> None:
    seat = await take_seat(connect(embedded_server), project())
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    await seat.workspace.prompt(session, f"{mark} [[{silent_phase} times=1 n=5]]", "one")
    complete = await seat.stream.run_complete(session, "one")
    assert complete["text"] == words(5)
    first, second = request_times(model, mark)
    assert second - first >= 3
    assert [e["ended"] for e in model.served(mark) if not e["title"]] == ["aborted", "done"]
    assert seat.stream.errors() == []
    assert roles_and_finishes(await seat.workspace.messages(session)) == ENDED_PAIR
