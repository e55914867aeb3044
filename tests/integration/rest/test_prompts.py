"""Prompts, runs and queues by the native resources."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from agents.runs.finish import close_session_work, settle_failed
from agents.runs.rows import read_runs
from tests.integration.api.client import Api
from tests.integration.api.conftest import Opened
from workspaces.access import OWNER, Caller, Identity, IdentityKind, MemberRole
from workspaces.actions.messages import create_message
from workspaces.log.parts import Role, Text
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer


class Runs:
    """The prompts and runs of one workspace and one session."""

    def __init__(self, rest: Api, workspace: Opened, session_id: str) -> None:
        self.rest, self.workspace, self.session_id = rest, workspace, session_id
        self.url = f"/api/workspaces/{workspace.id}"

    async def ask(
        self, method: str, path: str, body: Any = None, *, status: int = 200, **more: Any
    ) -> Any:
        answer = await self.rest.call(method, f"{self.url}/{path}", body, **more)
        assert answer.status == status, answer
        return answer.json if answer.body else None

    async def prompt(self, text: str = "go", *, status: int = 202, **more: Any) -> Any:
        path = f"sessions/{self.session_id}/prompts"
        return await self.ask("POST", path, {"text": text, **more}, status=status)

    async def queue(self) -> list[str]:
        page = await self.ask("GET", f"sessions/{self.session_id}/queue")
        return [run["prompt"] for run in page["items"]]

    async def fail(self, key: int) -> None:
        def job(tx: Transaction) -> None:
            (run,) = read_runs(tx, "r.id = %s", [key])
            settle_failed(tx, run, "the model is gone")
            close_session_work(tx, run.workspace_id, run.session_id)

        await writer.write(self.workspace.id, job)


@pytest_asyncio.fixture
async def runs(rest: Api, workspace: Opened) -> Runs:
    return Runs(rest, workspace, await workspace.session())


def member(role: MemberRole, workspace: Opened) -> Caller:
    return Caller(Identity(IdentityKind.USER, "ann", 7, roles={workspace.id: role}))


async def test_a_scheduled_prompt_has_its_priority(runs: Runs) -> None:
    scheduled = await runs.prompt(priority="scheduled", run_id="r")
    assert scheduled["priority"] == "scheduled"
    assert (await runs.prompt(priority="scheduled", run_id="r"))["key"] == scheduled["key"]
    assert "priority" not in await runs.prompt(priority="interactive")


async def test_a_run_that_waits_for_a_worker_has_its_place(runs: Runs, workspace: Opened) -> None:
    first = await runs.prompt("first")
    behind = await runs.prompt("behind", run_id="b")  # waits for the first, not for a worker
    scheduled = Runs(runs.rest, workspace, await workspace.session())
    last = await scheduled.prompt("last", priority="scheduled")
    other = Runs(runs.rest, workspace, await workspace.session())
    second = await other.prompt("second")
    assert "queue_place" not in first

    async def place(run: Any) -> int | None:
        place: int | None = (await runs.ask("GET", f"runs/{run['key']}")).get("queue_place")
        return place

    assert [await place(run) for run in (first, second, last, behind)] == [1, 2, 3, None]
    listed = await runs.ask("GET", "runs")
    assert [run.get("queue_place") for run in listed["items"]] == [2, 3, None, 1]

    await runs.fail(first["key"])

    assert await place(first) is None
    assert await place(behind) == 1
    (queued,) = (await runs.ask("GET", f"sessions/{runs.session_id}/queue"))["items"]
    assert queued["queue_place"] == 1


async def test_a_prompt_is_answered_with_its_run(runs: Runs) -> None:
    budget = {"cost": 0.5, "steps": 3}
    run = await runs.prompt("do it", run_id="r", options={"budget": budget})

    assert run == {
        "key": run["key"],
        "session_id": runs.session_id,
        "accept_number": 1,
        "run_id": "r",
        "kind": "prompt",
        "state": "accepted",
        "prompt": "do it",
        "was_queued": False,
        "author": {"kind": "owner", "name": "owner", "user_id": None},
        "options": {"budget": budget},
        "accepted_at": run["accepted_at"],
        "usage": {"requests": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0},
        "total_usage": {"requests": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0},
        "children": [],
    }
    assert await runs.ask("GET", f"runs/{run['key']}") == run | {"queue_place": 1}


async def test_the_idempotency_key_is_the_run_id(runs: Runs) -> None:
    path = f"sessions/{runs.session_id}/prompts"
    headers = [(b"idempotency-key", b"once")]
    first = await runs.ask("POST", path, {"text": "go"}, status=202, headers=headers)
    again = await runs.ask("POST", path, {"text": "go"}, status=202, headers=headers)
    # As after a crash before the response was stored: the name alone finds the run.
    named = await runs.prompt("go", run_id="once")

    assert first["run_id"] == "once"
    assert first["key"] == again["key"] == named["key"]
    assert (await runs.ask("GET", "runs?run_id=once"))["items"][0]["key"] == first["key"]


async def test_without_a_name_each_prompt_has_a_turn_of_its_own(runs: Runs) -> None:
    first, second = await runs.prompt("same"), await runs.prompt("same")
    assert first["key"] != second["key"]
    assert first["run_id"] != second["run_id"]


async def test_a_busy_session_rejects_with_409(runs: Runs) -> None:
    await runs.prompt()
    problem = await runs.prompt(strategy="reject", status=409)
    assert problem["code"] == "session_busy"


async def test_the_same_name_for_another_prompt_is_409(runs: Runs) -> None:
    await runs.prompt("one", run_id="r")
    assert (await runs.prompt("other", run_id="r", status=409))["code"] == "run_id_taken"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"text": ""}, "text"),
        ({"text": 5, "attachments": 5}, "attachments"),
        ({"text": "a\0b"}, "text"),
        ({"text": "a", "strategy": "never"}, "strategy"),
        ({"text": "a", "priority": "high"}, "priority"),
        ({"text": "a", "options": {"budget": {"cost": 0}}}, "options.budget.cost"),
        ({"text": "a", "options": {"budget": {"steps": 0.5}}}, "options.budget.steps"),
        ({"text": "a", "options": {"budget": {"tokens": 10**15}}}, "options.budget.tokens"),
        ({"text": "a", "options": {"permission_mode": "root"}}, "options.permission_mode"),
        ({"text": "a", "options": {"model": "no/such"}}, "options.model"),
        ({"text": "a", "options": {"effort": "extreme"}}, "options.effort"),
        ({"text": "a", "strategy": "steer", "options": {"model": "small"}}, "options"),
        (
            {"text": "a", "attachments": [{"mime_type": "image/png", "content": "%"}]},
            "attachments",
        ),
    ],
)
async def test_a_wrong_field_is_named_and_nothing_is_accepted(
    runs: Runs, body: Any, field: str
) -> None:
    problem = await runs.ask("POST", f"sessions/{runs.session_id}/prompts", body, status=400)
    assert field in problem["detail"]
    assert (await runs.ask("GET", "runs"))["items"] == []


@pytest.mark.parametrize("mode", ["yolo", "sysadmin"])
async def test_a_prompter_cannot_choose_to_skip_permissions(
    runs: Runs, workspace: Opened, mode: str
) -> None:
    runs.rest.caller = member(MemberRole.PROMPTER, workspace)
    await runs.prompt(options={"permission_mode": mode}, status=403)
    await runs.prompt(options={"permission_mode": "normal"})
    runs.rest.caller = member(MemberRole.ADMIN, workspace)
    assert (await runs.prompt(options={"permission_mode": mode}))["options"]


@pytest.mark.parametrize("mode", ["normal", "yolo"])
async def test_a_tool_chooses_no_permission_mode(runs: Runs, mode: str) -> None:
    async def yes() -> bool:
        return True

    runs.rest.caller = Caller(OWNER, is_tool=yes)
    problem = await runs.prompt(options={"permission_mode": mode}, status=403)
    assert problem["code"] == "forbidden_to_tools"
    await runs.prompt(options={"budget": {"steps": 2}})


async def test_runs_are_listed_newest_first_and_filtered(runs: Runs, workspace: Opened) -> None:
    first = await runs.prompt("a" * 3_000)
    runs.rest.caller = member(MemberRole.PROMPTER, workspace)
    second = await runs.prompt("b")
    await runs.fail(first["key"])

    async def keys(query: str) -> list[int]:
        return [run["key"] for run in (await runs.ask("GET", f"runs?{query}"))["items"]]

    assert await keys("") == [second["key"], first["key"]]
    assert await keys("author=7") == [second["key"]]
    assert await keys("outcome=failed") == [first["key"]]
    assert await keys("state=accepted") == [second["key"]]
    assert await keys(f"session={runs.session_id}&kind=prompt") == [second["key"], first["key"]]
    assert await keys("session=another") == []
    page = await runs.ask("GET", "runs?limit=1")
    assert [run["key"] for run in page["items"]] == [second["key"]]
    (failed,) = (await runs.ask("GET", f"runs?limit=1&cursor={page['next']}"))["items"]
    assert len(failed["prompt"]) == 2_000
    assert failed["error"] == "the model is gone"
    whole = await runs.ask("GET", f"runs/{first['key']}")
    assert len(whole["prompt"]) == 3_000


@pytest.mark.parametrize("key", ["999", "9" * 30])
async def test_an_unknown_run_is_404(runs: Runs, key: str) -> None:
    problem = await runs.ask("GET", f"runs/{key}", status=404)
    assert problem["code"] == "run_unknown"
    await runs.ask("POST", f"runs/{key}/cancel", status=404)
    await runs.ask("POST", f"runs/{key}/retry", status=404)
    await runs.ask("DELETE", f"queue/{key}", status=404)


async def test_a_failed_run_is_retried_with_its_files_and_options(runs: Runs) -> None:
    picture = {"file_name": "a.png", "mime_type": "image/png", "content": "aGk="}
    options = {"budget": {"steps": 2}}
    failed = await runs.prompt("look", attachments=[picture], options=options)
    await runs.ask("POST", f"runs/{failed['key']}/retry", status=409)
    await runs.fail(failed["key"])

    headers = [(b"idempotency-key", b"again")]
    retry = await runs.ask("POST", f"runs/{failed['key']}/retry", status=202, headers=headers)
    same = await runs.ask("POST", f"runs/{failed['key']}/retry", status=202, headers=headers)

    assert (retry["retry_of"], retry["run_id"]) == (failed["key"], "again")
    assert (retry["prompt"], retry["options"]) == ("look", options)
    assert retry["key"] == same["key"] != failed["key"]
    assert len((await runs.ask("GET", "runs"))["items"]) == 2


async def test_a_retry_needs_what_the_options_need(runs: Runs, workspace: Opened) -> None:
    failed = await runs.prompt(options={"permission_mode": "yolo"})
    await runs.fail(failed["key"])
    runs.rest.caller = member(MemberRole.PROMPTER, workspace)
    await runs.ask("POST", f"runs/{failed['key']}/retry", status=403)


async def test_one_run_is_cancelled_with_the_name_of_who_did_it(
    runs: Runs, workspace: Opened
) -> None:
    first, second = await runs.prompt("a"), await runs.prompt("b")
    runs.rest.caller = member(MemberRole.PROMPTER, workspace)

    ended = await runs.ask("POST", f"runs/{first['key']}/cancel")

    assert (ended["outcome"], ended["cancelled_by"]["name"]) == ("cancelled", "ann")
    assert (await runs.ask("GET", f"runs/{second['key']}"))["state"] == "accepted"
    await runs.ask("POST", f"sessions/{runs.session_id}/cancel", status=204)
    assert (await runs.ask("GET", f"runs/{second['key']}"))["outcome"] == "cancelled"


async def test_the_queue_is_listed_ordered_changed_and_emptied(runs: Runs) -> None:
    await runs.prompt("running")
    a, b, c = [(await runs.prompt(text))["key"] for text in "abc"]
    assert await runs.queue() == ["a", "b", "c"]

    path = f"sessions/{runs.session_id}/queue"
    await runs.ask("PATCH", path, {"keys": [c]}, status=204)
    assert await runs.queue() == ["c", "a", "b"]
    edited = await runs.ask("PATCH", f"queue/{a}", {"text": "changed"})
    assert edited["prompt"] == "changed"
    steering = await runs.ask("POST", f"queue/{b}/steer")
    assert steering["strategy"] == "steer"
    assert await runs.queue() == ["b", "c", "changed"]
    await runs.ask("DELETE", f"queue/{c}", status=204)
    assert await runs.queue() == ["b", "changed"]
    problem = await runs.ask("PATCH", path, {"keys": [c]}, status=409)
    assert problem["code"] == "queue_changed"
    await runs.ask("DELETE", path, status=204)
    assert await runs.queue() == []
    problem = await runs.ask("DELETE", f"queue/{a}", status=409)
    assert problem["code"] == "run_not_queued"


async def test_a_prompt_that_is_no_ones_turn_yet_is_not_in_the_queue(runs: Runs) -> None:
    run = await runs.prompt("first")
    assert await runs.queue() == []
    await runs.ask("DELETE", f"queue/{run['key']}", status=409)


async def test_interrupting_prompts_at_once_leave_one_running_and_lose_none(runs: Runs) -> None:
    """Each ends the one before it at most once, and each has exactly one run."""
    sent = [runs.prompt(str(n), strategy="interrupt", run_id=f"r{n}") for n in range(10)]
    keys = [run["key"] for run in await asyncio.gather(*sent)]

    found = (await runs.ask("GET", "runs"))["items"]
    assert sorted(run["key"] for run in found) == sorted(keys)
    assert len({run["accept_number"] for run in found}) == 10
    cancelled = [run for run in found if run.get("outcome") == "cancelled"]
    assert len(cancelled) + len(await runs.queue()) in {9, 10}


async def test_a_summary_is_accepted_as_a_run_of_a_session_with_messages(runs: Runs) -> None:
    path = f"sessions/{runs.session_id}/summary"
    refused = await runs.ask("POST", path, status=422)
    assert refused["code"] == "nothing_to_summarize"

    def job(tx: Transaction) -> None:
        words = (Text("hello"),)
        create_message(tx, runs.workspace.id, runs.session_id, role=Role.USER, parts=words)

    await writer.write(runs.workspace.id, job)
    accepted = await runs.ask("POST", path, status=202)
    assert (accepted["kind"], accepted["state"], accepted["prompt"]) == ("summary", "accepted", "")
    assert accepted["author"]["name"] == "owner"
    assert (await runs.ask("GET", f"runs/{accepted['key']}"))["kind"] == "summary"
    await runs.ask("POST", "sessions/unknown/summary", status=404)
    runs.rest.caller = member(MemberRole.VIEWER, runs.workspace)
    await runs.ask("POST", path, status=403)
