"""What becomes of a run whose worker died, or only seemed to."""

from __future__ import annotations

import orjson
import pytest

from agents.runs.cancel import cancel_session
from agents.runs.finish import rescue_run
from agents.runs.messages import MOST_LOST_WORKERS
from agents.runs.queries import lost_runs
from agents.runs.reply import Checkpoint, save_checkpoints
from agents.runs.rows import store_call_outputs
from agents.runs.steps import ReplyStart, ReplyWrite
from agents.runs.transitions import expire_all_leases
from agents.states import RunOutcome
from agents.turn.effects import End
from agents.turn.notes import UNKNOWN_RESULT
from tests.integration.runs.ground import (
    LEASE_MS,
    Ground,
    begin,
    claim,
    end,
    held_by,
    lose,
    result,
    results_of,
    run_of,
    say,
    step,
    write,
)
from workspaces.actions.messages import start_command_message
from workspaces.actions.processes import RegistrationLost, mark_lost, renew_registration
from workspaces.log.parts import FinishReason, ShellCommand, Text, ToolCall
from workspaces.log.timestamps import now_ms
from workspaces.models import Event, Message, RegisteredProcess, Session
from workspaces.queries.processes import late_processes

FAR = 10**15


def rescue(key: int, *, worker: str = "worker") -> str:
    return write(lambda tx: rescue_run(tx, key, worker=worker))


def test_a_run_between_two_steps_goes_on_with_another_worker(ground: Ground) -> None:
    held = ground.start()
    say(held, calls=["a"])

    other = ground.start(session_id=ground.new_session())

    assert rescue(held.key) == "ready"

    assert run_of(other.key).state == "running"
    row = run_of(held.key)
    assert (row.state, row.worker, row.lease_expires_at) == ("ready", "", 0)
    assert row.fence > held.fence
    assert [run.key for run in claim()] == [held.key]


def test_a_process_that_was_found_late_but_renewed_its_registration_keeps_it(
    ground: Ground,
) -> None:
    """Between the search and the end of its registration the process, which was only slow, renews."""
    held = ground.start()
    write(lambda tx: renew_registration(tx, "worker", lease_ms=-1, runs=1, is_draining=False))
    ((name, until),) = late_processes(now_ms(), apart_from="")
    write(lambda tx: renew_registration(tx, "worker", lease_ms=LEASE_MS, runs=1, is_draining=True))

    assert not write(lambda tx: mark_lost(tx, name, renewed_until=until))

    process = RegisteredProcess.objects.get(pk="worker")
    assert (process.is_lost, process.runs, process.is_draining) == (False, 1, True)
    assert lost_runs(now_ms()) == []
    assert run_of(held.key).state == "running"


def test_a_lost_process_cannot_renew_its_registration(ground: Ground) -> None:
    ground.start()
    lose()
    with pytest.raises(RegistrationLost):
        write(
            lambda tx: renew_registration(
                tx, "worker", lease_ms=LEASE_MS, runs=1, is_draining=False
            )
        )


def test_a_run_that_another_worker_has_claimed_since_is_left_alone(ground: Ground) -> None:
    key = ground.accept()
    held = begin(held_by(key, *claim("slow")))
    write(lambda tx: rescue_run(tx, key, worker="slow"))
    again = begin(held_by(key, *claim("quick")))
    before = Event.objects.count()

    assert rescue(key, worker="slow") == ""

    assert Event.objects.count() == before
    row = run_of(key)
    assert (row.state, row.worker, row.fence) == ("running", "quick", again.fence)
    assert again.fence > held.fence


@pytest.mark.parametrize("state", ["parked", "ready", "finished"])
def test_only_a_running_run_is_rescued(ground: Ground, state: str) -> None:
    held = ground.start()
    if state == "parked":
        say(held, calls=["a"])
        step(held, parks=True)
    elif state == "ready":
        step(held, releases=True)
    else:
        end(held)
    assert run_of(held.key).state == state
    assert rescue(held.key) == ""
    lose()
    assert lost_runs(FAR) == []
    assert run_of(held.key).state == state


def test_a_tool_that_was_cut_is_not_repeated_and_the_run_continues(ground: Ground) -> None:
    held = ground.start(run_id="first")
    say(held, calls=["a", "b"])
    step(held, begins=["a"])
    behind = ground.accept("behind", run_id="second")

    assert rescue(held.key) == "ready"

    row = run_of(held.key)
    assert (row.state, row.open_calls, row.lost_workers) == ("ready", "[]", 1)
    # The call that had not begun waits for the next worker.
    assert results_of(held) == {"a": (UNKNOWN_RESULT, True)}
    assert ground.events("run.finished") == []
    assert ground.events("agent.failed") == []
    assert [run.key for run in claim()] == [held.key]
    assert run_of(behind).state == "accepted"


def test_the_model_gets_what_a_cut_tool_has_printed(ground: Ground) -> None:
    held = ground.start()
    other = ground.start(session_id=ground.new_session())
    say(held, calls=["a"])
    step(held, begins=["a"])
    stale = (held.key, held.fence - 1, {"a": "of a worker without the lease"})
    newest = (held.key, held.fence, {"a": "half-way"})
    of_other = (other.key, other.fence, {"a": "of another run"})
    write(lambda tx: store_call_outputs(tx, [newest, of_other, stale]))

    assert rescue(held.key) == "ready"

    content, is_error = results_of(held)["a"]
    assert content.startswith(UNKNOWN_RESULT)
    assert content.endswith("\nhalf-way")
    assert is_error
    assert run_of(held.key).call_outputs is None
    assert run_of(other.key).call_outputs == '{"a":"of another run"}'


def test_what_a_tool_has_printed_is_forgotten_with_its_result(ground: Ground) -> None:
    held = ground.start()
    say(held, calls=["a"])
    step(held, begins=["a"])
    write(lambda tx: store_call_outputs(tx, [(held.key, held.fence, {"a": "half-way"})]))
    step(held, results=[result("a")])
    assert run_of(held.key).call_outputs is None


def test_a_reply_that_was_cut_is_requested_again(ground: Ground) -> None:
    held = ground.start()
    cut = step(held, start=ReplyStart("m", "p"))
    checkpoint = Message.objects.get(run_key=held.key, role="assistant")
    given = Checkpoint(held, checkpoint.pk, checkpoint.stream_number, (Text("half a wo"),))
    write(lambda tx: save_checkpoints(tx, [given]))

    assert rescue(held.key) == "ready"
    assert Session.objects.get(pk=ground.session_id).is_busy
    again = begin(held_by(held.key, *claim("another")))
    ground.accept("joins later")
    written = step(again, start=ReplyStart("newer", "p2", fold=True))

    reply = Message.objects.get(run_key=held.key, role="assistant")
    assert (reply.pk, reply.parts, reply.is_finished) == (checkpoint.pk, "[]", False)
    assert (reply.model, reply.provider) == ("newer", "p2")
    assert reply.stream_number == written.stream_number > cut.stream_number
    assert written.message is not None
    assert written.message["id"] == checkpoint.pk
    assert not written.folded  # that prompt would come after the reply that answers it
    (restarted,) = ground.events("message.restarted")
    assert (restarted["retry"]["attempt"], restarted["retry"]["attempts"]) == (2, 5)
    assert "server stopped" in restarted["retry"]["reason"]
    # A late checkpoint of the worker that was lost changes nothing.
    write(lambda tx: save_checkpoints(tx, [given]))
    assert Message.objects.get(pk=reply.pk).parts == "[]"
    step(again, reply=ReplyWrite(reply.pk, (Text("whole"),), FinishReason.END_TURN))
    step(again, end=End(RunOutcome.COMPLETED))
    assert "whole" in Message.objects.get(pk=reply.pk).parts
    assert len(ground.events("run.finished")) == 1


@pytest.mark.parametrize("was_summary", [True, False])
def test_a_cut_reply_of_the_other_kind_ends(ground: Ground, was_summary: bool) -> None:
    held = ground.start()
    step(held, start=ReplyStart("m", "p", is_summary=was_summary))
    assert rescue(held.key) == "ready"
    again = begin(held_by(held.key, *claim()))

    step(again, start=ReplyStart("m", "p", is_summary=not was_summary))

    first, second = Message.objects.filter(run_key=held.key, role="assistant").order_by("position")
    assert first.is_finished
    assert '"Interrupted"' in first.parts
    assert not second.is_finished
    assert second.is_summary is not was_summary
    progress = [event["done"] for event in ground.events("summary.progressed")]
    assert progress == ([False, True] if was_summary else [False])


def test_a_run_ends_that_has_lost_five_workers(ground: Ground) -> None:
    held = ground.start(run_id="poison")
    behind = ground.accept("behind", run_id="second")
    for _ in range(MOST_LOST_WORKERS - 1):
        step(held, start=ReplyStart("m", "p"))
        assert rescue(held.key) == "ready"
        held = begin(held_by(held.key, *claim()))
    step(held, start=ReplyStart("m", "p"))

    assert rescue(held.key) == "interrupted"

    row = run_of(held.key)
    assert (row.state, row.outcome) == ("finished", "interrupted")
    assert "stopped 5 times" in row.error
    reply = Message.objects.get(run_key=held.key, role="assistant")
    assert reply.is_finished
    assert '"Interrupted"' in reply.parts
    (finished,) = ground.events("run.finished")
    assert (finished["run"]["run_id"], finished["run"]["outcome"]) == ("poison", "interrupted")
    (failed,) = ground.events("agent.failed")
    assert failed["run_id"] == "poison"
    assert [run.key for run in claim()] == [behind]


def test_a_server_that_stops_regularly_does_not_count_as_lost(ground: Ground) -> None:
    held = ground.start()
    for _ in range(MOST_LOST_WORKERS + 1):
        step(held, start=ReplyStart("m", "p"))
        key = held.key
        done = write(lambda tx, key=key: rescue_run(tx, key, worker="worker", is_planned=True))
        assert done == "ready"
        held = begin(held_by(held.key, *claim()))
    assert run_of(held.key).lost_workers == 0


def test_a_run_with_all_its_results_goes_on(ground: Ground) -> None:
    held = ground.start()
    say(held, calls=["a"])
    step(held, begins=["a"])
    step(held, results=[result("a")])
    assert rescue(held.key) == "ready"


def test_a_cancelled_run_is_cancelled_and_not_interrupted(ground: Ground) -> None:
    held = ground.start()
    say(held, calls=["a"])
    step(held, begins=["a"])
    write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id))

    assert rescue(held.key) == "cancelled"

    assert run_of(held.key).outcome == "cancelled"
    assert results_of(held)["a"][1]
    assert ground.events("agent.failed") == []
    assert not Session.objects.get(pk=ground.session_id).is_busy


def test_at_the_start_of_a_server_alone_every_lease_has_expired(ground: Ground) -> None:
    running = ground.start()
    parked = ground.accept(session_id=ground.new_session())
    write(expire_all_leases)
    assert lost_runs(now_ms()) == [(running.key, ground.workspace_id, "worker")]
    assert run_of(parked).state == "accepted"


def test_a_cut_reply_that_is_cancelled_keeps_its_words_and_its_whole_calls(
    ground: Ground,
) -> None:
    held = ground.start()
    step(held, start=ReplyStart("m", "p"))
    message = Message.objects.get(run_key=held.key, role="assistant")
    parts = (
        Text("words"),
        ToolCall("whole", "bash", "{}", finished=True),
        ToolCall("cut", "bash", '{"comm'),
    )
    given = Checkpoint(held, message.pk, message.stream_number, parts)
    write(lambda tx: save_checkpoints(tx, [given]))
    write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id))

    assert rescue(held.key) == "cancelled"

    kept = orjson.loads(Message.objects.get(pk=message.pk).parts)
    assert [part["type"] for part in kept] == ["text", "tool_call", "finish"]
    assert kept[1]["data"]["id"] == "whole"
    assert list(results_of(held)) == ["whole"]


def test_a_users_command_that_runs_in_the_session_does_not_interrupt_its_run(
    ground: Ground,
) -> None:
    held = ground.start()
    command = ShellCommand("make", "", 0)
    write(
        lambda tx: start_command_message(
            tx, ground.workspace_id, ground.session_id, command=command
        )
    )
    assert rescue(held.key) == "ready"
