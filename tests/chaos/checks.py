"""What must hold when all faults are over: nothing is lost, doubled, stuck, or different."""

import asyncio
import json
import re
import time
from collections import Counter
from typing import Any

import psycopg

from agents.turn.notes import UNKNOWN_RESULT
from tests.acceptance.conversation import text_of
from tests.acceptance.folding import Broken, Fold, differences
from tests.chaos.findings import Findings
from tests.chaos.places import Json, Place, Work, run_id, words
from tests.chaos.plan import RunSort
from tests.chaos.readers import AttachedClient, NativeFollower

SETTLE_SECONDS = 400.0
MOST_LOST_WORKERS = 5  # a run that has lost so many ends as interrupted
_MARK = re.compile(r"echo (r\d+\.\d+) ")
_LOOK_SECONDS = 0.5
_NOISE = re.compile(r"Traceback \(most recent|^\S+Z (?:error|critical) ", re.MULTILINE)


async def settle(work: Work, findings: Findings) -> None:
    """Until no run waits for anything but a person, who then answers; `Work.answer` goes on."""
    began = time.monotonic()
    left: list[Json] = []
    while time.monotonic() - began < SETTLE_SECONDS:
        left = [run for place in work.places for run in (await work.snapshot(place))["runs"]]
        if not left:
            findings.note(f"settled after {time.monotonic() - began:.1f} s")
            return
        await asyncio.sleep(_LOOK_SECONDS)
    for run in left:
        findings.violated("stuck", f"{run}")


async def check_place(
    work: Work,
    place: Place,
    readers: list[NativeFollower],
    clients: list[AttachedClient],
    findings: Findings,
    *,
    seconds: float,
) -> None:
    number = (await work.snapshot(place))["number"]
    for reader in readers:
        await reader.read_to(number, seconds=seconds)
    messages: dict[str, Json] = {}
    for session in place.sessions:
        snapshot = await work.snapshot(place, session)
        if snapshot["has_earlier_messages"]:
            findings.violated("check", f"{session} has more messages than one page")
        for stored in snapshot["sessions"]:
            if stored["id"] == session and stored.get("is_busy"):
                findings.violated("stuck", f"session {session} is busy")
        for reader in readers:
            for difference in differences(reader.fold, snapshot, session):
                findings.violated("fold", f"{place.path.name}: {difference}")
        messages |= {message["id"]: message for message in snapshot["messages"]}
        _check_calls(snapshot["messages"], findings)
    for client in clients:
        _check_texts(client, messages, findings)
    for reader in readers:
        _check_ends(reader.fold, place, messages, findings)
    _check_effects(place, list(messages.values()), findings)


def _check_ends(fold: Fold, place: Place, messages: dict[str, Json], findings: Findings) -> None:
    try:
        fold.check_runs()
    except Broken as error:
        findings.violated("ends", f"{place.path.name}: {error}")
    ids = Counter(str(run.get("run_id", "")) for run in fold.accepted.values())
    if ids != Counter(dict.fromkeys(place.accepted, 1)):
        wrong = (ids - Counter(place.accepted)) + (Counter(place.accepted) - ids)
        findings.violated("ends", f"{place.path.name}: accepted once is not true of {wrong}")
    for end in fold.ends:
        planned = place.runs.get(end.get("run_id", ""))
        if planned is None or end["outcome"] != "completed":
            continue
        reply = messages.get(end["message_id"])
        asked = planned.sort is not RunSort.REPLY and place.asks
        if not asked and (reply is None or text_of(reply).split() != words(planned)):
            findings.violated("reply", f"{run_id(planned)}: {reply} is not {words(planned)}")


def _check_calls(messages: list[Json], findings: Findings) -> None:
    """Each message is finished, and each call has one result."""
    calls: Counter[str] = Counter()
    results: Counter[str] = Counter()
    for message in messages:
        finishes = [part["type"] for part in message["parts"]].count("finish")
        if finishes != 1:
            findings.violated("open message", f"{finishes} finishes: {message}")
        for part in message["parts"]:
            if part["type"] == "tool_call":
                calls[part["data"]["id"]] += 1
            elif part["type"] == "tool_result":
                results[part["data"]["tool_call_id"]] += 1
    if calls != results:
        findings.violated("calls", f"calls {calls - results}, results {results - calls}")


def _check_texts(client: AttachedClient, messages: dict[str, Json], findings: Findings) -> None:
    for message_id, text in client.texts().items():
        if message_id not in messages or text_of(messages[message_id]) != text:
            findings.violated("/v1", f"{message_id}: {text!r} is not {messages.get(message_id)}")


def _check_effects(place: Place, messages: list[Json], findings: Findings) -> None:
    """No command acted twice, and each that succeeded acted."""
    marks = place.effects()
    for mark, count in marks.items():
        if count > 1:
            findings.violated("effect doubled", f"{mark}: {count} times")
    inputs: dict[str, Json] = {}
    for message in messages:
        for part in message["parts"]:
            data = part["data"]
            if part["type"] == "tool_call":
                inputs[data["id"]] = json.loads(data["input"] or "{}")
            elif part["type"] == "tool_result":
                _check_result(place, marks, inputs.get(data["tool_call_id"], {}), data, findings)


def _check_result(
    place: Place, marks: Counter[str], arguments: Json, result: Json, findings: Findings
) -> None:
    is_unknown = UNKNOWN_RESULT[:40] in result["content"]
    if mark := _MARK.search(arguments.get("command", "")):
        findings.counted["commands that succeeded"] += not result["is_error"]
        findings.counted["commands of unknown outcome"] += is_unknown
        if is_unknown and marks[mark[1]]:
            findings.counted["commands of unknown outcome, with effect"] += 1
        if not result["is_error"] and not marks[mark[1]]:
            findings.violated("effect lost", f"{mark[1]}: {result}")
    elif (name := arguments.get("content")) and not result["is_error"]:
        file = place.path / f"{name}.txt"
        if not file.exists() or file.read_text() != name:
            findings.violated("effect lost", f"{file}: {result}")


def check_rows(database_url: str, places: list[Place], findings: Findings) -> None:
    """Each accepted run is one row, which has ended as it may."""
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "SELECT workspace_id, run_id, state, outcome, error, COALESCE(lost_workers, 0)"
            " FROM agents_run"
        ).fetchall()
    by_id = {place.id: place for place in places}
    for workspace_id, name, state, outcome, error, lost_workers in rows:
        findings.counted[f"runs {outcome or state}"] += 1
        findings.counted["workers lost by runs"] += lost_workers
        _check_row(by_id[workspace_id], str(name), (state, outcome, error, lost_workers), findings)
    counted = Counter((row[0], row[1]) for row in rows)
    for place in places:
        for name in place.runs:
            if counted[place.id, name] != 1:
                findings.violated("lost", f"{name} has {counted[place.id, name]} rows")


def _check_row(place: Place, name: str, row: tuple[Any, ...], findings: Findings) -> None:
    state, outcome, error, lost_workers = row
    if state != "finished":
        findings.violated("stuck", f"{name}: {state}")
    elif outcome == "interrupted" and lost_workers < MOST_LOST_WORKERS:
        findings.violated("interrupted", f"{name} lost {lost_workers} workers: {error}")
    elif outcome == "cancelled":
        if place.in_session.get(name) not in place.cancelled:
            findings.violated("cancelled", f"{name}, which nobody cancelled: {error}")
    elif outcome not in ("completed", "interrupted"):
        findings.violated("failed", f"{name} {outcome}: {error}")


def noisy_lines(text: str) -> int:
    return len(_NOISE.findall(text))
