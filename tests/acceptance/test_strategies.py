"""What native prompts do with a busy session: with a real server and the scripted model."""

import asyncio
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conversation import (
    CANCELLED_PAIR,
    SLOW,
    Seat,
    roles_and_finishes,
    take_seat,
    text_of,
)
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.native import NativeSocket
from tests.acceptance.harness.shapes import Server
from tests.acceptance.transcripts import BlockedTool, requests_sent, roles

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]

ENDED_PAIR = [("user", "stop"), ("assistant", "end_turn")]


async def native(seat: Seat, method: str, path: str, body: Any = None, *, expect: int = 200) -> Any:
    url = f"/api/workspaces/{seat.workspace.id}/{path}"
    return await seat.workspace.client.http.call(method, url, body, expect=expect)


async def send(seat: Seat, session: str, text: str, *, expect: int = 202, **more: Any) -> Any:
    body = {"text": text, **more}
    return await native(seat, "POST", f"sessions/{session}/prompts", body, expect=expect)


async def run_of(seat: Seat, key: int) -> Any:
    return await native(seat, "GET", f"runs/{key}")


async def test_interrupt_keeps_what_was_said_and_the_queue_waits(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session = await seat.workspace.session()
    first = await send(seat, session, SLOW, run_id="first")
    await seat.stream.words(session, 3)
    waiting = await send(seat, session, "waits [[n=2]]", run_id="waits")

    now = await send(seat, session, "now [[n=3]]", run_id="now", strategy="interrupt")

    await seat.stream.run_complete(session, "waits")
    completes = [e.payload for e in seat.stream.of("run_complete", session)]
    assert [c.get("run_id") for c in completes] == ["first", "now", "waits"]
    assert [bool(c.get("cancelled")) for c in completes] == [True, False, False]
    messages = await seat.workspace.messages(session)
    assert roles_and_finishes(messages) == [*CANCELLED_PAIR, *ENDED_PAIR, *ENDED_PAIR]
    assert len(text_of(messages[1]).split()) >= 3
    ended = await run_of(seat, first["key"])
    assert ended["outcome"] == "cancelled"
    assert ended["cancelled_by"]["kind"] == ended["author"]["kind"] == "owner"
    assert (await run_of(seat, now["key"]))["replaces"] == first["key"]
    done = await run_of(seat, waiting["key"])
    assert (done["outcome"], done["state"]) == ("completed", "finished")
    assert done["accepted_at"] <= done["started_at"] <= done["finished_at"]


async def test_interrupt_ends_a_turn_that_waits_for_permission(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project()
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    call = json.dumps({"command": "touch made", "description": "mark"})
    await send(seat, session, f"[[tool=bash {call}]]", run_id="asks")
    await seat.stream.wait_for(lambda e: e.type == "permission_request")

    await send(seat, session, "now [[n=3]]", run_id="now", strategy="interrupt")

    await seat.stream.run_complete(session, "now")
    assert not (path / "made").exists()
    (complete,) = [
        e.payload
        for e in seat.stream.of("run_complete", session)
        if e.payload.get("run_id") == "asks"
    ]
    assert complete["cancelled"] is True


async def test_steer_joins_the_running_turn_with_its_name(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project()
    seat = await take_seat(connect(shared_server), path, yolo=True)
    blocked, mark = BlockedTool(path), uuid.uuid4().hex
    session = await seat.workspace.session()
    first = await send(seat, session, f"{mark} {blocked.script} [[n=9]]", run_id="first")
    await blocked.wait()
    await send(seat, session, "waits [[n=2]]", run_id="waits")
    joins = await send(seat, session, f"{mark} [[n=4]]", run_id="joins", strategy="steer")
    blocked.release()

    complete = await seat.stream.run_complete(session, "first")

    assert len(complete["text"].split()) == 4
    assert roles(requests_sent(model, mark)[1]) == ["user", "assistant", "tool", "user"]
    folded = await run_of(seat, joins["key"])
    assert (folded["outcome"], folded["folded_into"]) == ("folded", first["key"])
    await seat.stream.run_complete(session, "waits")


async def test_rollback_undoes_the_messages_and_files_of_the_turn(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project()
    (path / "kept.txt").write_text("before")
    seat = await take_seat(connect(shared_server), path, yolo=True)
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    await send(seat, session, "[[n=2]]", run_id="before")
    await seat.stream.run_complete(session, "before")
    blocked = BlockedTool(path)
    calls = " ;; ".join(
        [
            f"write {json.dumps({'file_path': 'made.txt', 'content': 'wrong'})}",
            blocked.script.removeprefix("[[tool=").removesuffix("]]"),
        ]
    )
    wrong = await send(seat, session, f"[[calls={calls}]]", run_id="wrong")
    await blocked.wait()
    assert (path / "made.txt").read_text() == "wrong"

    fields = {"run_id": "right", "strategy": "rollback"}
    right = await send(seat, session, f"{mark} [[n=3]]", **fields)
    await seat.stream.run_complete(session, "right")

    assert not (path / "made.txt").exists()
    assert (path / "kept.txt").read_text() == "before"
    messages = await seat.workspace.messages(session)
    assert roles_and_finishes(messages) == [*ENDED_PAIR, *ENDED_PAIR]
    (body,) = requests_sent(model, mark)
    assert roles(body) == ["user", "assistant", "user"]
    assert (await run_of(seat, wrong["key"]))["outcome"] == "cancelled"
    done = await run_of(seat, right["key"])
    assert done["replaces"] == wrong["key"]
    (rewind,) = (await native(seat, "GET", f"sessions/{session}/rewinds"))["items"]
    assert (rewind["id"], rewind["state"]) == (done["rewind_id"], "done")
    assert [file["result"] for file in rewind["files"]] == ["deleted"]


async def test_reject_is_refused_while_the_session_is_busy(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session = await seat.workspace.session()
    await send(seat, session, SLOW, run_id="first")
    await send(seat, session, "no", strategy="reject", expect=409)
    await seat.workspace.cancel(session)
    await seat.stream.run_complete(session, "first")
    await send(seat, session, "[[n=2]]", strategy="reject", run_id="yes")
    assert not (await seat.stream.run_complete(session, "yes")).get("cancelled")


async def test_a_budget_ends_the_run_before_its_next_request(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project(), yolo=True)
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    call = 'ls {"path": "."}'
    options = {"budget": {"steps": 2, "tokens": 10**9, "seconds": 600}}

    run = await send(seat, session, f"{mark} [[tools=9 {call}]]", run_id="r", options=options)
    complete = await seat.stream.run_complete(session, "r")

    assert complete["error"] == "Over budget: 2 of 2 steps"
    assert not complete.get("cancelled")
    assert len(requests_sent(model, mark)) == 2
    ended = await run_of(seat, run["key"])
    assert ended["outcome"] == "over_budget"
    assert ended["budget"]["exceeded"] == ["steps"]
    assert ended["budget"]["reached"]["steps"] == 2
    last = (await seat.workspace.messages(session))[-2]
    finish = last["parts"][-1]["data"]
    shown = (finish["reason"], finish["message"], finish["details"])
    assert shown == ("error", "Over budget", "2 of 2 steps")
    await send(seat, session, "[[n=2]]", run_id="next")
    assert "error" not in await seat.stream.run_complete(session, "next")


async def test_a_prompt_chooses_its_permission_mode_alone(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project()
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    call = json.dumps({"command": "echo x >> made", "description": "mark"})
    free = {"permission_mode": "yolo"}
    await send(seat, session, f"[[tool=bash {call}]]", run_id="free", options=free)
    await seat.stream.run_complete(session, "free")
    assert (path / "made").read_text().split() == ["x"]

    await send(seat, session, f"[[tool=bash {call}]]", run_id="asks")
    await seat.stream.wait_for(lambda e: e.type == "permission_request")
    assert (path / "made").read_text().split() == ["x"]
    await seat.workspace.cancel(session)


async def test_the_socket_prompts_with_a_strategy(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(shared_server)
    seat = await take_seat(client, project())
    session = await seat.workspace.session()
    socket = await NativeSocket(client.http, seat.workspace.id).open()
    prompt = {"command": "prompt", "session_id": session}
    await socket.send({"id": 1, **prompt, "text": SLOW, "run_id": "first"})
    await seat.stream.words(session, 3)
    await socket.send({"id": 2, **prompt, "text": "[[n=2]]", "run_id": "no", "strategy": "reject"})
    await socket.send(
        {"id": 3, **prompt, "text": "[[n=2]]", "run_id": "now", "strategy": "interrupt"}
    )
    replies = {}
    for number in (1, 2, 3):
        reply = await socket.wait_for(
            lambda r, n=number: r.body.get("id") == n if r.type == "reply" else False
        )
        replies[number] = reply.body
    assert replies[2]["code"] == "session_busy"
    assert replies[1]["ok"]
    assert replies[3]["data"]["key"] > replies[1]["data"]["key"]
    await seat.stream.run_complete(session, "now")
    ended = await socket.wait_for(
        lambda r: r.type == "run.finished" and r.body["data"]["run"].get("run_id") == "first"
    )
    assert ended.body["data"]["run"]["cancelled_by"]["kind"] == "owner"
    await socket.close()


@pytest.mark.timeout(300)
async def test_interrupts_at_once_lose_and_double_no_prompt(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    """Each prompt has one run and one end, however many of them end each other."""
    seat = await take_seat(connect(shared_server), project())

    async def one_round(number: int) -> None:
        session = await seat.workspace.session()
        names = [f"{number}-{n}" for n in range(6)]
        texts = {name: f"{name} [[n=40 d=5]]" for name in names}
        start = seat.stream.mark()
        sent = [
            send(seat, session, text, run_id=name, strategy="interrupt")
            for name, text in texts.items()
        ]
        keys = [run["key"] for run in await asyncio.gather(*sent, sent_again(session, texts))][:-1]
        assert len(set(keys)) == 6
        for name in names:
            await seat.stream.run_complete(session, name, start=start)
        ends = [e.payload["run_id"] for e in seat.stream.of("run_complete", session)]
        assert sorted(ends) == names
        prompts = [
            text_of(m) for m in await seat.workspace.messages(session) if m["role"] == "user"
        ]
        assert len(prompts) == len(set(prompts)) == 6
        assert (await seat.workspace.get_session(session))["is_busy"] is False

    async def sent_again(session: str, texts: dict[str, str]) -> Any:
        """The same requests again, as a client sends them that has not got the response."""
        for name, text in texts.items():
            answer = await send(seat, session, text, run_id=name, strategy="interrupt")
        return answer

    for first in range(0, 20, 5):
        await asyncio.gather(*(one_round(n) for n in range(first, first + 5)))
