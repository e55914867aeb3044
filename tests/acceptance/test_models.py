"""What a model says and wants: reasoning, tools, limits, other dialects, other configuration."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.acceptance.conversation import SHORT, roles_and_finishes, take_seat, text_of
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.native import NativeSse
from tests.acceptance.harness.project import configuration
from tests.acceptance.harness.shapes import Server
from tests.acceptance.transcripts import headers_sent, requests_sent, roles, tool_answers

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]

ENDED_PAIR = [("user", "stop"), ("assistant", "end_turn")]
ONE_TOOL = [
    ("user", "stop"),
    ("assistant", "tool_use"),
    ("tool", "stop"),
    ("assistant", "end_turn"),
]


def parts_of(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [part["data"] for part in message["parts"] if part["type"] == kind]


async def test_reasoning_streams_and_is_kept_apart_from_the_words(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    client = connect(shared_server)
    seat = await take_seat(client, project())
    feed = await NativeSse(client.http, seat.workspace.id, after=0).open()
    session, gate = await seat.workspace.session(), model.new_gate()
    await seat.workspace.prompt(session, f"[[reason=4 n=3 gate={gate}]]", "one")
    await model.wait_at_gate(gate)
    model.open_gate(gate)
    complete = await seat.stream.run_complete(session, "one")
    assert complete["text"] == "word0 word1 word2 "
    (_, reply) = await seat.workspace.messages(session)
    assert [part["type"] for part in reply["parts"]] == ["reasoning", "text", "finish"]
    (reasoning,) = parts_of(reply, "reasoning")
    assert reasoning["thinking"] == "think0 think1 think2 think3 "
    assert 0 < reasoning["started_at"] <= reasoning["finished_at"]
    await feed.wait_for(lambda e: e.type == "run.finished")
    deltas = [e.body for e in feed.received if e.type == "delta"]
    assert [delta[4] for delta in deltas if len(delta) > 4] == ["reasoning", "text"]
    assert "".join(delta[3] for delta in deltas if delta[1] == 0) == reasoning["thinking"]
    await feed.close()


# --- tools


async def test_the_calls_of_one_reply_each_get_their_result(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project()
    (path / "a.txt").write_text("alpha\n")
    seat = await take_seat(connect(shared_server), path)
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    calls = 'view {"file_path": "a.txt"} ;; ls {} ;; grep {"pattern": "alpha"} ;; nosuch {"a": 1}'
    await seat.workspace.prompt(session, f"{mark} [[calls={calls}]] [[n=2]]", "one")
    complete = await seat.stream.run_complete(session, "one")
    assert "error" not in complete
    messages = await seat.workspace.messages(session)
    made = parts_of(messages[1], "tool_call")
    assert [call["name"] for call in made] == ["view", "ls", "grep", "nosuch"]
    assert all(call["finished"] for call in made)
    results = [result for m in messages for result in parts_of(m, "tool_result")]
    assert {r["tool_call_id"] for r in results} == {call["id"] for call in made}
    assert len(results) == 4
    by_name = {r["name"]: r for r in results}
    assert by_name["nosuch"]["is_error"] is True
    assert "nosuch" in by_name["nosuch"]["content"]
    assert "view" in by_name["nosuch"]["content"]  # it says what there is
    assert not any(by_name[name]["is_error"] for name in ("view", "ls", "grep"))
    # The model gets them in the order of its calls, whichever ended first.
    body = requests_sent(model, mark)[-1]
    assert roles(body) == ["user", "assistant", "tool", "tool", "tool", "tool"]
    ids = [m["tool_call_id"] for m in body["messages"] if m["role"] == "tool"]
    assert ids == [call["id"] for call in made]
    assert "alpha" in tool_answers(body)[0]
    assert messages[-1]["role"] == "assistant"


async def test_broken_arguments_are_reported_to_the_model(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    await seat.workspace.prompt(session, f"{mark} [[badargs]] [[n=2]]", "one")
    complete = await seat.stream.run_complete(session, "one")
    assert "error" not in complete
    messages = await seat.workspace.messages(session)
    assert roles_and_finishes(messages) == ONE_TOOL
    (result,) = parts_of(messages[2], "tool_result")
    assert result["is_error"] is True
    assert "JSON" in result["content"]
    body = requests_sent(model, mark)[-1]
    assert tool_answers(body) == [result["content"]]
    # What a provider is sent back must be JSON, whatever the model wrote.
    (call,) = body["messages"][-2]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {}
    assert seat.stream.of("permission_request") == []


async def test_wrong_arguments_are_reported_with_the_wrong_field(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    await seat.workspace.prompt(session, f'{mark} [[tool=view {{"file_path": 7}}]] [[n=2]]', "one")
    await seat.stream.run_complete(session, "one")
    messages = await seat.workspace.messages(session)
    assert roles_and_finishes(messages) == ONE_TOOL
    (result,) = parts_of(messages[2], "tool_result")
    assert result["is_error"] is True
    assert "file_path" in result["content"]


async def test_calls_that_repeat_without_progress_end_the_turn(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    await seat.workspace.prompt(session, f"{mark} [[before=1]] [[loop=ls {{}}]]", "one")
    complete = await seat.stream.run_complete(session, "one")
    assert "error" not in complete
    assert "cancelled" not in complete
    messages = await seat.workspace.messages(session)
    assert 3 <= len(requests_sent(model, mark)) <= 10
    assert messages[-1]["role"] == "tool"  # every call has its result
    replies = [m for m in messages if m["role"] == "assistant"]
    assert [m["role"] for m in messages[1:]] == ["assistant", "tool"] * len(replies)
    (finish,) = parts_of(replies[-1], "finish")
    assert finish["reason"] == "end_turn"
    assert "repeated" in finish["message"]
    assert complete["message_id"] == replies[-1]["id"]
    assert seat.stream.errors() == []
    await seat.workspace.prompt(session, SHORT, "two")
    assert len((await seat.stream.run_complete(session, "two"))["text"].split()) == 5


async def test_many_rounds_that_make_progress_continue(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project()
    seat = await take_seat(connect(shared_server), path, yolo=True)
    session = await seat.workspace.session()
    call = json.dumps({"command": "echo x >> f; wc -l < f", "description": "count"})
    await seat.workspace.prompt(session, f"[[tools=12 bash {call}]] [[n=3]]", "one")
    complete = await seat.stream.run_complete(session, "one", 60)
    assert len(complete["text"].split()) == 3
    assert (path / "f").read_text() == "x\n" * 12


# --- ends


async def test_a_reply_that_reaches_its_limit_is_marked(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    await seat.workspace.prompt(session, f"{mark} [[n=3 finish=length]]", "one")
    complete = await seat.stream.run_complete(session, "one")
    assert "error" not in complete
    assert complete["text"] == "word0 word1 word2 "
    messages = await seat.workspace.messages(session)
    assert roles_and_finishes(messages) == [("user", "stop"), ("assistant", "max_tokens")]
    assert requests_sent(model, mark)[0]["max_tokens"] == 4096
    await seat.workspace.prompt(session, "[[n=2 finish=content_filter]]", "two")
    await seat.stream.run_complete(session, "two")
    last = (await seat.workspace.messages(session))[-1:]
    assert roles_and_finishes(last) == [("assistant", "content_filter")]


# --- configuration


async def test_a_changed_configuration_is_used_by_the_next_prompt(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project()
    seat = await take_seat(connect(shared_server), path)
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    for number in range(6):
        # Each prompt comes right after its change: no time passes for anybody to notice.
        changed = configuration(model.base_url)
        changed["models"]["large"]["model"] = ("fake-large", "fake-small")[number % 2]
        changed["models"]["large"]["max_tokens"] = 100 + number
        seat.workspace.configure(changed)
        await seat.workspace.prompt(session, f"{mark} {SHORT}", f"run-{number}")
        await seat.stream.run_complete(session, f"run-{number}")
    used = [(body["model"], body["max_tokens"]) for body in requests_sent(model, mark)]
    assert used == [(("fake-large", "fake-small")[number % 2], 100 + number) for number in range(6)]
    replies = [m["model"] for m in await seat.workspace.messages(session)][1::2]
    assert replies == ["fake-large", "fake-small"] * 3


async def test_a_key_of_the_workspaces_environment_reaches_only_the_model(
    server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    secret = f"sk-{uuid.uuid4().hex}"
    providers = configuration(model.base_url)["providers"]
    providers["fake"] |= {"api_key": "$MY_KEY", "extra_headers": {"X-Team": "${MY_KEY}"}}
    client, path = connect(server), project(providers=providers)
    seat = await take_seat(client, path, env=[f"MY_KEY={secret}", "PATH=/usr/bin:/bin"])
    feed = await NativeSse(client.http, seat.workspace.id, after=0).open()
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    await seat.workspace.prompt(session, f"{mark} {SHORT}", "one")
    await seat.stream.run_complete(session, "one")
    (headers,) = headers_sent(model, mark)
    assert headers["Authorization"] == f"Bearer {secret}"
    assert headers["X-Team"] == secret
    await seat.workspace.prompt(session, "[[status=401 n=2]]", "refused")
    assert (await seat.stream.run_complete(session, "refused"))["error"]
    await feed.wait_for(
        lambda e: e.type == "run.finished" and e.body["data"]["run"]["run_id"] == "refused"
    )
    shown: list[Any] = [seat.workspace.answer, seat.stream.events, feed.received]
    views = ("", "/config", "/providers", "/agent", "/sessions", f"/sessions/{session}/messages")
    shown += [await seat.workspace.call("GET", view) for view in views]
    shown.append(await client.workspaces())
    shown.append(await client.http.call("GET", "/v1/config"))
    shown.append(await client.http.call("GET", f"/api/workspaces/{seat.workspace.id}/snapshot"))
    again = await client.workspace(path)
    shown.append(again.answer)
    assert all(secret not in str(answer) for answer in shown)
    assert (await seat.workspace.config())["providers"]["fake"]["api_key"] == "$MY_KEY"
    await feed.close()
    assert secret not in server.log_text()
    stored = [file for file in server.data_dir.rglob("*") if file.is_file()]
    assert stored
    assert [file for file in stored if secret.encode() in file.read_bytes()] == []


# --- another dialect


async def test_the_messages_dialect_carries_a_whole_turn(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    providers = configuration(model.base_url)["providers"]
    providers["fake"] |= {"type": "anthropic"}
    chosen = configuration(model.base_url)["models"]
    chosen["large"] |= {"think": True}
    large = providers["fake"]["models"][0]
    large |= {"can_reason": True, "cost_per_1m_in": 3, "cost_per_1m_out": 15}
    path = project(providers=providers, models=chosen)
    (path / "a.txt").write_text("alpha\n")
    seat = await take_seat(connect(shared_server), path)
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    script = '[[reason=2 before=2 n=3 usage=100,10,50]] [[tool=view {"file_path": "a.txt"}]]'
    await seat.workspace.prompt(session, f"{mark} {script}", "one")
    complete = await seat.stream.run_complete(session, "one")
    assert complete["text"] == "word0 word1 word2 "
    messages = await seat.workspace.messages(session)
    assert roles_and_finishes(messages) == ONE_TOOL
    kinds = [[part["type"] for part in m["parts"]] for m in messages]
    assert kinds[1] == ["reasoning", "text", "tool_call", "finish"]
    (reasoning,) = parts_of(messages[1], "reasoning")
    assert reasoning["thinking"] == "think0 think1 "
    assert reasoning["signature"].startswith("sig-")
    entries = [e for e in model.served(mark) if not e["title"]]
    assert {e["dialect"] for e in entries} == {"anthropic"}
    (headers, _) = headers_sent(model, mark)
    assert headers["x-api-key"] == "sk-fake"
    assert "Authorization" not in headers
    second = requests_sent(model, mark)[1]["messages"]
    assert [message["role"] for message in second] == ["user", "assistant", "user"]
    thinking = [b for b in second[1]["content"] if b["type"] == "thinking"]
    assert [(b["thinking"], b["signature"]) for b in thinking] == [
        ("think0 think1 ", reasoning["signature"])
    ]
    (use,) = [b for b in second[1]["content"] if b["type"] == "tool_use"]
    (result,) = [b for b in second[2]["content"] if b["type"] == "tool_result"]
    assert use["input"] == {"file_path": "a.txt"}
    assert result["tool_use_id"] == use["id"]
    assert "alpha" in json.dumps(result["content"])
    event = await seat.stream.wait_for(
        lambda e: e.type == "session" and e.payload["completion_tokens"] == 10
    )
    assert event.payload["prompt_tokens"] == 150
    # Its failures are met and told like the other dialect's.
    await seat.workspace.prompt(session, "[[cut=2 times=1 n=4]]", "two")
    complete = await seat.stream.run_complete(session, "two")
    assert complete["text"] == "word0 word1 word2 word3 "
    assert text_of((await seat.workspace.messages(session))[-1]) == complete["text"]
    await seat.workspace.prompt(session, "[[overflow]]", "three")
    assert "context window" in (await seat.stream.run_complete(session, "three"))["error"]
