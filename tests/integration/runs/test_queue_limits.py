"""How much may wait in one session, and what counts."""

from __future__ import annotations

import pytest

from agents.models import Run
from agents.runs.accept import (
    Prompt,
    PromptAttachment,
    accept_prompt,
    accept_summary,
)
from agents.runs.prompting.begin import begin_run
from agents.runs.prompting.queue import QueueLimits
from tests.integration.runs.ground import Ground, claim, held_by, run_of, say, write
from workspaces.log.errors import QueueFull

PICTURE = PromptAttachment("/p/é.png", "é.png", "image/png", "AAAA")


def accept_limited(ground: Ground, prompt: Prompt, *, prompts: int = 2, size: int = 100) -> int:
    limits = QueueLimits(prompts, size)
    return write(lambda tx: accept_prompt(tx, ground.workspace_id, prompt, limits=limits))


def test_no_more_prompts_than_the_limit_wait_behind_another(ground: Ground) -> None:
    ground.start("the one that runs")
    for text in ("first", "second"):
        accept_limited(ground, Prompt(ground.session_id, text))

    with pytest.raises(QueueFull, match=r"2 prompts with 11 bytes wait, and 2 prompts with 100"):
        accept_limited(ground, Prompt(ground.session_id, "third"))

    assert Run.objects.count() == 3
    other = ground.new_session()
    ground.start("runs", session_id=other)
    accept_limited(ground, Prompt(other, "another session has a queue of its own"))


def test_the_bytes_that_wait_are_limited_and_the_limit_itself_may_be_reached(
    ground: Ground,
) -> None:
    ground.start("the one that runs" * 100)
    accept_limited(ground, Prompt(ground.session_id, "x" * 60), prompts=9)
    with pytest.raises(QueueFull):
        accept_limited(ground, Prompt(ground.session_id, "x" * 41), prompts=9)
    with pytest.raises(QueueFull):
        accept_limited(ground, Prompt(ground.session_id, "é" * 21), prompts=9)  # two bytes each
    accept_limited(ground, Prompt(ground.session_id, "é" * 20), prompts=9)


def test_the_first_prompt_that_waits_is_accepted_whatever_its_size(ground: Ground) -> None:
    ground.start("the one that runs")
    accept_limited(ground, Prompt(ground.session_id, "x" * 1_000))
    with pytest.raises(QueueFull):
        accept_limited(ground, Prompt(ground.session_id, "x"))


def test_a_session_without_work_takes_a_prompt_whatever_the_limits(ground: Ground) -> None:
    key = accept_limited(ground, Prompt(ground.session_id, "x" * 1_000), prompts=0, size=0)
    assert run_of(key).state == "accepted"


def test_without_limits_any_number_waits(ground: Ground) -> None:
    for _ in range(3):
        ground.accept("x" * 1_000)
    assert Run.objects.count() == 3


def test_a_prompt_that_is_sent_again_is_accepted_although_the_queue_is_full(
    ground: Ground,
) -> None:
    ground.start()
    prompt = Prompt(ground.session_id, "first", "r")
    key = accept_limited(ground, prompt, prompts=1)
    assert accept_limited(ground, prompt, prompts=1) == key


def test_a_summary_waits_in_the_same_queue(ground: Ground) -> None:
    first = ground.start()
    say(first, "words")
    accept_limited(ground, Prompt(ground.session_id, "waits"), prompts=1)
    limits = QueueLimits(1, 100)
    with pytest.raises(QueueFull):
        write(lambda tx: accept_summary(tx, ground.workspace_id, ground.session_id, limits=limits))


def test_the_size_of_a_prompt_counts_its_text_and_all_of_its_attachments(ground: Ground) -> None:
    key = ground.accept("né", attachments=(PICTURE, PICTURE))
    one = len("/p/é.png") + len("é.png") + len("image/png") + len("AAAA")
    assert run_of(key).size == 3 + 2 * one


def test_attachments_are_shown_in_the_message_by_their_path_or_name(ground: Ground) -> None:
    unnamed = PromptAttachment("", "pasted.png", "image/png", "BBBB")
    key = ground.accept("look", attachments=(PICTURE, unnamed))
    held = held_by(key, *claim())
    write(lambda tx: begin_run(tx, held))
    (created,) = ground.events("message.created")
    shown = [part["data"] for part in created["message"]["parts"] if part["type"] == "binary"]
    assert [part["Path"] for part in shown] == ["/p/é.png", "pasted.png"]
