"""Who answers a permission request: a rule, or a person who has seen all of it."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from io import StringIO

import pytest
from django.core.management.base import OutputWrapper

from agents.states import Answer
from crushsite.cli.request_text import PermissionQuestion
from crushsite.cli.terminal_output import CommandOutput
from crushsite.cli.user_answers import AllowAll, LeftOpen, Nobody, PermissionAnswer, Person
from tests.doubles.seat import Seat

QUESTION = PermissionQuestion(
    "q", "bash", "execute", "/p", "Make a file", {"command": "touch x\x1b[2J"}
)


async def test_nobody_denies_and_says_what_to_do() -> None:
    noted: list[str] = []
    asker = Nobody(noted.append)
    assert not asker.has_denied
    assert await asker.ask(QUESTION) == PermissionAnswer(Answer.DENY)
    assert asker.has_denied
    assert "denied: bash wants to execute in /p: touch x" in noted[0]
    assert "--yolo" in noted[0]
    assert "\x1b" not in noted[0]


async def test_yolo_allows_and_says_so() -> None:
    noted: list[str] = []
    assert await AllowAll(noted.append, None).ask(QUESTION) == PermissionAnswer(Answer.ALLOW)
    assert "allowed: bash" in noted[0]


def command(text: str) -> PermissionQuestion:
    return PermissionQuestion("q", "bash", "execute", "/p", "", {"command": text})


@asynccontextmanager
async def asked(
    question: PermissionQuestion, *, columns: int = 80, rows: int = 24
) -> AsyncIterator:
    with Seat(columns=columns, rows=rows) as seat:
        person = Person(seat.terminal, nullcontext)
        answering = asyncio.create_task(person.ask(question))
        yield seat, answering
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y", Answer.ALLOW),
        ("YES ", Answer.ALLOW),
        ("s", Answer.ALLOW_SESSION),
        ("n", Answer.DENY),
    ],
)
async def test_a_person_answers_with_a_letter(typed: str, answer: Answer) -> None:
    async with asked(command("touch x")) as (seat, answering):
        shown = await seat.answer("allow?", f"{typed}\n")
        assert shown.split("\n") == [
            "bash wants to execute in /p",
            "│ touch x",
            "  s allows every such bash call in /p until the session ends",
            "  ",
        ]
        assert await answering == PermissionAnswer(answer)


async def test_anything_else_is_asked_again_and_a_closed_terminal_denies() -> None:
    async with asked(command("id")) as (seat, answering):
        await seat.answer("allow?", "\n")
        await seat.answer("allow?", "sure\n")
        await seat.answer("allow?", "\x04")
        assert await answering == PermissionAnswer(Answer.DENY)


async def test_every_line_of_a_command_is_shown_with_blanks_counted() -> None:
    text = "ls -la src   # look at the sources\nid > OWNED" + " " * 4000 + "; rm x"
    async with asked(command(text)) as (seat, _):
        shown = await seat.wait_for("allow?")
        assert "│ ls -la src   # look at the sources\n│ id > OWNED⟨4,000 blanks⟩; rm x\n" in shown


async def test_nothing_can_be_approved_before_the_last_page() -> None:
    text = "".join(f"echo {number}\n" for number in range(50))
    async with asked(command(text), rows=20) as (seat, answering):
        first = await seat.answer("more lines", "y\n")
        assert "echo 0" in first
        assert "answer after the last line" in await seat.answer("more lines", "s\n")
        assert "answer after the last line" in await seat.answer("more lines", "\n")
        assert "echo 16" in await seat.answer("more lines", "\n")
        assert "echo 49" in await seat.answer("allow?", "y\n")
        assert await answering == PermissionAnswer(Answer.ALLOW)
        for number in range(50):
            assert seat.shown.count(f"│ echo {number}\n") == 1


async def test_what_was_typed_ahead_approves_nothing() -> None:
    text = "x\n" * 30
    async with asked(command(text), rows=20) as (seat, answering):
        await seat.answer("more lines", "\ny\n")
        await seat.wait_for("allow?")
        seat.type("n\n")
        assert await answering == PermissionAnswer(Answer.DENY)


async def test_it_can_be_denied_on_every_page() -> None:
    async with asked(command("x\n" * 300)) as (seat, answering):
        await seat.answer("more lines", "n\n")
        assert await answering == PermissionAnswer(Answer.DENY)


@pytest.mark.parametrize(("columns", "rows"), [(1, 1), (3, 2), (15, 4), (20, 5), (200, 60)])
async def test_all_is_shown_in_a_terminal_of_any_size(columns: int, rows: int) -> None:
    text = "echo abcdefghijklmnopqrstuvwxyz; echo 日本"
    async with asked(command(text), columns=columns, rows=rows) as (seat, answering):
        await seat.wait_for("denies -- ", "allow?")
        while "allow?" not in seat.shown:
            seat.type("\n")
            await seat.wait_for("denies -- ", "allow?")
        seat.type("y\n")
        assert await answering == PermissionAnswer(Answer.ALLOW)
    drawn = re.sub(r"--.*?-- \n|^[│┊] ?|\n", "", seat.shown, flags=re.MULTILINE)
    assert f"bash wants to execute in /p{text}" in drawn


async def test_a_page_that_grows_wider_goes_on_where_it_stopped() -> None:
    async with asked(command("0123456789" * 20), columns=24, rows=6) as (seat, answering):
        await seat.wait_for("denies -- ")
        seat.resize(columns=100, rows=40)
        seat.type("\n")
        await seat.answer("allow?", "n\n")
        assert await answering == PermissionAnswer(Answer.DENY)
    drawn = re.sub(r"--.*?-- \n|^[│┊] ?|\n", "", seat.shown, flags=re.MULTILINE)
    assert "0123456789" * 20 in drawn


async def test_a_terminal_that_goes_away_denies() -> None:
    with Seat() as seat:
        answering = asyncio.create_task(Person(seat.terminal, nullcontext).ask(command("id")))
        await seat.wait_for("allow?")
        seat.hang_up()
        assert await asyncio.wait_for(answering, 60) == PermissionAnswer(Answer.DENY)


async def test_other_output_waits_until_the_question_is_closed() -> None:
    out, err = StringIO(), StringIO()
    output = CommandOutput(OutputWrapper(out), OutputWrapper(err))
    with Seat() as seat:
        answering = asyncio.create_task(Person(seat.terminal, output.held).ask(command("id")))
        await seat.wait_for("allow?")
        output.say("words")
        output.note("note")
        assert (out.getvalue(), err.getvalue()) == ("", "")
        seat.type("y\n")
        await asyncio.wait_for(answering, 60)
    assert (out.getvalue(), err.getvalue()) == ("words", "note")


async def test_a_question_that_another_client_answers_ends_its_line() -> None:
    async with asked(command("id")) as (seat, answering):
        await seat.wait_for("[n]o: ")
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
        await seat.wait_for("\n")


WRITING = PermissionQuestion(
    "q", "write", "write", "/p", "Create file /p/a/b", {}, files=("/p/a/b", "/p/a/c/d")
)


async def test_a_write_may_be_allowed_for_its_folder() -> None:
    async with asked(WRITING) as (seat, answering):
        shown = await seat.answer("for its [f]older, [n]o: ", "f\n")
        assert "  s allows write for these 2 files until the session ends\n" in shown
        assert "  f allows write for everything in /p/a until the session ends\n" in shown
        assert await answering == PermissionAnswer(Answer.ALLOW_SESSION, "/p/a")


async def test_what_always_needs_permission_is_not_offered_for_the_session() -> None:
    async with asked(replace(WRITING, always_asks=True)) as (seat, answering):
        assert "each change needs permission" in await seat.answer("allow? [y]es, [n]o: ", "s\n")
        await seat.answer("allow? [y]es, [n]o: ", "y\n")
        assert await answering == PermissionAnswer(Answer.ALLOW)


async def test_a_second_run_of_a_call_needs_a_person_also_with_yolo() -> None:
    cut = replace(QUESTION, always_asks=True, is_cut=True)
    noted: list[str] = []
    nobody = Nobody(noted.append)
    for asker in (nobody, AllowAll(noted.append, None)):
        assert (await asker.ask(cut)).answer is Answer.DENY
    assert all(line.startswith("not run again: ") for line in noted)
    assert not nobody.has_denied  # the turn continues
    with Seat() as seat:
        yolo = AllowAll(noted.append, Person(seat.terminal, nullcontext))
        answering = asyncio.create_task(yolo.ask(cut))
        assert "y runs it again" in await seat.answer("allow? [y]es, [n]o: ", "y\n")
        assert await answering == PermissionAnswer(Answer.ALLOW)


TRUST = PermissionQuestion("q", "trust", "trust", "/p", "It would start: x", {"starts": "x"})


@pytest.mark.parametrize("question", [TRUST, replace(WRITING, is_earlier=True)])
async def test_rules_leave_to_a_person_what_is_not_about_this_prompt(
    question: PermissionQuestion,
) -> None:
    noted: list[str] = []
    nobody = Nobody(noted.append)
    for asker in (nobody, AllowAll(noted.append, None)):
        with pytest.raises(LeftOpen):
            await asker.ask(question)
    assert len(noted) == 2
    assert not nobody.has_denied


async def test_yolo_asks_a_person_about_trust() -> None:
    with Seat() as seat:
        yolo = AllowAll(lambda _: None, Person(seat.terminal, nullcontext))
        answering = asyncio.create_task(yolo.ask(TRUST))
        assert (
            "│ It would start: x\n  allow?" in f"{await seat.answer('allow?', 'n' + chr(10))}allow?"
        )
        assert await asyncio.wait_for(answering, 60) == PermissionAnswer(Answer.DENY)
