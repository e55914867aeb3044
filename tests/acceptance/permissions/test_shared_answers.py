"""Several people answer the same requests, with reasons and changes, or nobody does."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.acceptance.calling import bash, permission_request, results, until, write
from tests.acceptance.conversation import Seat, roles_and_finishes, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.native import NativeSocket
from tests.acceptance.harness.shapes import Server, Shape

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeServer = Callable[..., Server]
SignIn = Callable[[Server, str, str], Any]
RACES = 1_000
CALLS = 100  # in one reply
AT_ONCE = 10


@pytest_asyncio.fixture
async def sign_in() -> AsyncIterator[SignIn]:
    """`await sign_in(server, workspace_id, name)`: a client of an approver of the workspace."""
    clients: list[Client] = []

    async def make(server: Server, workspace_id: str, name: str) -> Client:
        name = f"{name}-{workspace_id[:8]}"
        for arguments in (
            ("user", "add", name, "--no-password"),
            ("user", "role", name, workspace_id, "approver"),
            ("token", "create", "test", "--user", name),
        ):
            done = await asyncio.to_thread(command, server.env, *arguments)
            assert done.code == 0, done
        clients.append(Client(server.url, token=done.out.strip()))
        return clients[-1]

    yield make
    for client in clients:
        await client.close()


def approvals(seat: Seat, request_id: str = "") -> str:
    return f"/api/workspaces/{seat.workspace.id}/approvals/{request_id}"


async def answer(seat: Seat, request_id: str, client: Client | None = None, **body: Any) -> Any:
    http = (client or seat.workspace.client).http
    return await http.call("POST", f"{approvals(seat, request_id)}/answer", body)


async def pending(seat: Seat) -> list[dict[str, Any]]:
    query = {"workspace_id": seat.workspace.id, "limit": "200"}
    found, cursor = [], {}
    while True:
        page = await seat.workspace.client.http.call("GET", "/api/approvals", params=query | cursor)
        found += page["items"]
        if page["next"] is None:
            return found
        cursor = {"cursor": page["next"]}


@dataclass
class Answerer:
    """One person, who answers over REST and over a socket."""

    seat: Seat
    client: Client
    socket: NativeSocket
    sent: int = 0

    @classmethod
    async def of(cls, seat: Seat, client: Client) -> "Answerer":
        return cls(seat, client, await NativeSocket(client.http, seat.workspace.id).open())

    async def answer(self, request_id: str, *, by_socket: bool, **body: Any) -> dict[str, Any]:
        if not by_socket:
            return dict(await answer(self.seat, request_id, self.client, **body))
        self.sent += 1
        number = self.sent
        given = {"command": "answer", "id": number, "request_id": request_id, **body}
        start = len(self.socket.received)
        await self.socket.send(given)
        reply = await self.socket.wait_for(
            lambda r: r.type == "reply" and r.body["id"] == number, start=start
        )
        assert reply.body["ok"], reply.body
        return dict(reply.body["data"])


# The requests of one caller are limited otherwise.
@pytest.mark.server_env(CRUSH_REQUESTS_PER_SECOND="100000")
async def test_of_two_people_one_wins_and_both_see_who(
    server: Server, connect: Connect, project: MakeProject, sign_in: SignIn, tmp_path: Path
) -> None:
    seat = await take_seat(connect(server), project("race"))
    ann = await sign_in(server, seat.workspace.id, "ann")
    bob = await sign_in(server, seat.workspace.id, "bob")
    outside = tmp_path / "outside"
    calls = [json.dumps({"file_path": str(outside / str(n))}) for n in range(CALLS)]
    prompt = f"[[calls={' ;; '.join(f'view {call}' for call in calls)}]] [[n=3]]"
    for number in range(1, RACES // CALLS + 1):
        await seat.workspace.prompt(await seat.workspace.session(), prompt)

        async def all_wait(count: int = number * CALLS) -> bool:
            return len(await pending(seat)) == count

        await until(all_wait, "every call waits for an answer")
    ids = [request["id"] for request in await pending(seat)]
    people = [await Answerer.of(seat, client) for client in (ann, bob)]
    answers = ({"answer": "allow"}, {"answer": "deny", "reason": "no"})
    # A denial has a reason: without one it would end the turn, and withdraw the others.

    async def race(number: int) -> list[dict[str, Any]]:
        """Returns the replies to both people, who take turns in being first and in their ways."""
        by_socket = (number & 1, number & 2)
        first = number >> 2 & 1
        sent = {
            index: asyncio.create_task(
                people[index].answer(
                    ids[number], by_socket=bool(by_socket[index]), **answers[index]
                )
            )
            for index in (first, 1 - first)
        }
        return [await sent[0], await sent[1]]

    wins = [0, 0]
    for start in range(0, RACES, AT_ONCE):
        numbers = range(start, start + AT_ONCE)
        for by_ann, by_bob in await asyncio.gather(*map(race, numbers)):
            assert by_ann.pop("resolved") is not by_bob["resolved"]
            winner = int(by_bob.pop("resolved"))
            wins[winner] += 1
            assert by_ann == by_bob
            assert by_ann["state"] == ("allowed", "denied")[winner]
            assert by_ann["author"]["name"].startswith(("ann", "bob")[winner])
    assert sum(wins) == RACES
    assert min(wins) > RACES // 10, wins  # else one was too late each time
    resolved = await resolved_events(seat)
    assert len(resolved) == len({event["request_id"] for event in resolved}) == RACES
    for person in people:
        await person.socket.close()


async def resolved_events(seat: Seat) -> list[dict[str, Any]]:
    """The answers in the log of the workspace, from its beginning."""
    log = await NativeSocket(seat.workspace.client.http, seat.workspace.id, after=0).open()
    await log.wait_for(lambda r: r.type == "stream.opened")
    found = [r.body["data"] for r in log.received if r.type == "permission.resolved"]
    await log.close()
    return found


async def test_a_reason_reaches_the_model_and_the_turn_continues(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(shared_server), project("reasons"))
    for verdict, text in (("deny", "use the other file"), ("allow", "only this time")):
        session = await seat.workspace.session()
        start = seat.stream.mark()
        await seat.workspace.prompt(session, bash("touch made; echo words"))
        request = await permission_request(seat, session, start=start)
        assert (await answer(seat, request["id"], answer=verdict, reason=text))["resolved"]
        assert "error" not in await seat.stream.run_complete(session, start=start)
        messages = await seat.workspace.messages(session)
        assert roles_and_finishes(messages)[-1] == ("assistant", "end_turn")
        assert len(messages) == 4  # the model has read the result
        (result,) = results(messages)
        assert text in result["content"]
        assert ("words" in result["content"]) is (verdict == "allow")


async def test_a_call_runs_with_changed_arguments(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("changes")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, write("theirs.txt", "their words"))
    request = await permission_request(seat, session)
    detail = await seat.workspace.client.http.call("GET", approvals(seat, request["id"]))
    assert "+their words" in detail["diff"]
    assert detail["arguments"] == {"file_path": "theirs.txt", "content": "their words"}
    assert set(detail["schema"]["properties"]) == {"file_path", "content"}
    for wrong in ({"file_path": "ours.txt"}, {"file_path": 1, "content": "x"}):
        await seat.workspace.client.http.call(
            "POST",
            f"{approvals(seat, request['id'])}/answer",
            {"answer": "allow", "arguments": wrong},
            expect=400,
        )
    ours = {"file_path": "ours.txt", "content": "our words"}
    await answer(seat, request["id"], answer="allow", arguments=ours)
    assert "error" not in await seat.stream.run_complete(session)
    assert (path / "ours.txt").read_text() == "our words"
    assert not (path / "theirs.txt").exists()
    messages = await seat.workspace.messages(session)
    (call,) = [p["data"] for m in messages for p in m["parts"] if p["type"] == "tool_call"]
    assert json.loads(call["input"]) == ours
    assert "ours.txt" in results(messages)[0]["content"]
    after = await seat.workspace.client.http.call("GET", approvals(seat, request["id"]))
    assert "+our words" in after["diff"]
    assert after["files"] == [str(path / "ours.txt")]


async def test_changes_to_a_protected_file_are_shown_first(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("protected")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, write("notes.txt", "x"))
    request = await permission_request(seat, session)
    start = seat.stream.mark()
    changed = {"file_path": ".envrc", "content": "evil"}
    await answer(seat, request["id"], answer="allow", arguments=changed)
    second = await permission_request(seat, session, start=start)
    assert second["id"] != request["id"]
    assert second["dangerous"] is True
    assert second["params"]["new_content"] == "evil"
    assert not (path / ".envrc").exists()
    assert not (await answer(seat, request["id"], answer="allow"))["resolved"]
    await answer(seat, second["id"], answer="deny")
    await seat.stream.run_complete(session, start=start)
    assert not (path / ".envrc").exists()


async def test_hooks_judge_changed_arguments_too(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    denies = "if grep -q forbidden; then echo 'never that' >&2; exit 2; fi"
    hook = {"command": denies, "matcher": "^bash$", "timeout": 60}
    path = project("hooked", hooks={"PreToolUse": [hook]})
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash("touch made"))
    request = await permission_request(seat, session)
    changed = {"command": "touch forbidden", "description": "test"}
    await answer(seat, request["id"], answer="allow", arguments=changed)
    assert "error" not in await seat.stream.run_complete(session)
    (result,) = results(await seat.workspace.messages(session))
    assert "never that" in result["content"]
    assert not {"made", "forbidden"} & {entry.name for entry in path.iterdir()}


async def test_a_grant_is_for_the_runs_of_the_person_who_gave_it(
    shared_server: Server, connect: Connect, project: MakeProject, sign_in: SignIn
) -> None:
    seat = await take_seat(connect(shared_server), project("own-grants"))
    ann = await sign_in(shared_server, seat.workspace.id, "ann")
    session = await seat.workspace.session()

    async def prompt(client: Client) -> int:
        start = seat.stream.mark()
        body = {"session_id": session, "prompt": bash("touch made")}
        await client.http.call(
            "POST", f"/v1/workspaces/{seat.workspace.id}/agent", body, expect=202
        )
        return start

    start = await prompt(ann)
    request = await permission_request(seat, session, start=start)
    await answer(seat, request["id"], ann, answer="allow", scope="workspace")
    await seat.stream.run_complete(session, start=start)
    start = await prompt(ann)  # covered by her grant
    await seat.stream.run_complete(session, start=start)
    start = await prompt(seat.workspace.client)  # the owner's run is not
    request = await permission_request(seat, session, start=start)
    (grant,) = (
        await ann.http.call("GET", "/api/grants", params={"workspace_id": seat.workspace.id})
    )["items"]
    revoke = f"/api/workspaces/{seat.workspace.id}/grants/{grant['id']}"
    await ann.http.call("DELETE", revoke, expect=204)
    await answer(seat, request["id"], answer="deny")
    await seat.stream.run_complete(session, start=start)
    start = await prompt(ann)  # and hers needs permission again
    request = await permission_request(seat, session, start=start)
    await answer(seat, request["id"], answer="deny")
    await seat.stream.run_complete(session, start=start)


async def test_a_policy_denies_once_although_the_server_was_dead_meanwhile(
    make_a_server: MakeServer, shape: Shape, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(shape, env={"CRUSH_SERVER_CREATE_GRACE": "0.5"}, workers=3)
    await asyncio.to_thread(server.start)
    path = project("policy")
    seat = await take_seat(connect(server), path)
    policy = f"/api/workspaces/{seat.workspace.id}/approval-policy"
    body = {"notify_after_seconds": None, "deny_after_seconds": 5}
    await seat.workspace.client.http.call("PUT", policy, body)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash("touch made"), "denied")
    request = await permission_request(seat, session)
    await asyncio.to_thread(server.kill9)
    await asyncio.sleep(6)  # the time passes while no process runs
    await asyncio.to_thread(server.start)
    # No client has the workspace open: the policy opens it for the run.
    client = connect(server)

    async def is_denied() -> bool:
        shown = await client.http.call("GET", approvals(seat, request["id"]))
        return bool(shown["state"] == "denied")

    await until(is_denied, "the policy denies the request")
    late = await take_seat(client, path)

    async def has_ended() -> bool:
        return not (await late.workspace.get_session(session))["is_busy"]

    await until(has_ended, "the run ends")
    (resolved,) = await resolved_events(late)
    assert (resolved["author"]["kind"], resolved["state"]) == ("policy", "denied")
    (result,) = results(await late.workspace.messages(session))
    assert "no answer within 5 s" in result["content"]
    assert not (path / "made").exists()


async def test_a_policy_notifies_once(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(shared_server), project("notifies"))
    policy = f"/api/workspaces/{seat.workspace.id}/approval-policy"
    body = {"notify_after_seconds": 1, "deny_after_seconds": None}
    await seat.workspace.client.http.call("PUT", policy, body)
    socket = await NativeSocket(seat.workspace.client.http, seat.workspace.id).open()
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash("touch made"))
    request = await permission_request(seat, session)
    overdue = await socket.wait_for(lambda r: r.type == "permission.overdue")
    assert overdue.body["data"]["request_id"] == request["id"]
    assert overdue.body["data"]["waiting_seconds"] >= 1
    shown = await seat.workspace.client.http.call("GET", approvals(seat, request["id"]))
    assert shown["is_overdue"] is True
    await answer(seat, request["id"], answer="allow")
    await seat.stream.run_complete(session)
    assert [r.type for r in socket.received].count("permission.overdue") == 1
    await socket.close()


@pytest.mark.server_env(CRUSH_SERVER_DETACH_GRACE="0.1")
async def test_an_answer_reaches_a_run_of_a_workspace_that_no_client_has_open(
    server: Server, connect: Connect, project: MakeProject
) -> None:
    client, path = connect(server), project("closed")
    seat = await take_seat(client, path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash("touch made.txt"), "parked")
    request = await permission_request(seat, session)
    await seat.stream.abort()

    async def is_closed() -> bool:
        return seat.workspace.id not in [w["id"] for w in await client.workspaces()]

    await until(is_closed, "the workspace is closed")
    assert [item["id"] for item in await pending(seat)] == [request["id"]]
    assert (await answer(seat, request["id"], answer="allow"))["resolved"]

    async def is_made() -> bool:
        return (path / "made.txt").exists()

    await until(is_made, "the run continues")
    await until(is_closed, "the workspace is closed again")
