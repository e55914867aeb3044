"""``manage.py answer``: answers a permission request or a tool's questions."""

from __future__ import annotations

import re
import time
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from typing_extensions import override

from agents.states import Answer
from crushsite.cli.request_text import heading_of, lines_of, question_of
from crushsite.cli.terminal import UserTerminal, visible
from crushsite.cli.terminal_output import Survey
from crushsite.cli.user_answers import Person, PersonToAsk, answer_of
from crushsite.client.client_command import ClientCommand
from crushsite.client.finding import one_of
from crushsite.client.listing import as_json, below, items

if TYPE_CHECKING:
    from crushclient import Client

SCOPES = ("once", "run", "session", "workspace")
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


class Command(ClientCommand):
    help = (
        "Answers a permission request or questions, which `approvals` lists. Without an answer it"
        " shows the whole request at the terminal, and then takes the answer."
    )
    examples = (
        "answer 20ebb6bc",
        "answer 20ebb6bc allow --scope session --for 2h",
        "answer 20ebb6bc deny --reason 'use the staging database'",
        "answer 7c11d0aa --response yes --response 2",
    )

    @override
    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("request", help="the id of a request, or the beginning of it")
        parser.add_argument("answer", nargs="?", choices=["allow", "deny"])
        parser.add_argument("--reason", default="", help="for the model to read")
        parser.add_argument(
            "--scope",
            choices=SCOPES,
            default="once",
            help="how far `allow` reaches (default: once)",
        )
        parser.add_argument("--folder", default="", help="allow everything in this folder")
        parser.add_argument(
            "--for", dest="duration", metavar="TIME", help="how long, like 30m, 2h or 7d"
        )
        parser.add_argument(
            "--response",
            action="append",
            metavar="TEXT",
            help="the answer to a question: yes, no, the number of a choice, or words; one for each",
        )
        parser.add_argument("--dismiss", action="store_true", help="answer none of the questions")

    @override
    async def act(self, client: Client, options: Mapping[str, Any]) -> None:
        approvals = await items(client, "/api/approvals")
        questions = await items(client, "/api/questions")
        row = one_of(
            [*approvals, *questions], options["request"], what="open request", listing="approvals"
        )
        if "questions" in row:
            result = await self._questions(client, row, options)
        else:
            result = await self._approval(client, row, options)
        if options["json"]:
            self.stdout.write(as_json(result))
        elif result["resolved"]:
            self.stdout.write(f"{str(result['state']).capitalize()}.")
        else:
            by = (result.get("author") or {}).get("name") or "another client"
            raise CommandError(f"{visible(str(by))} answered first: {result['state']}.")

    async def _approval(
        self, client: Client, row: Mapping[str, Any], options: Mapping[str, Any]
    ) -> dict[str, Any]:
        if options["response"] or options["dismiss"]:
            raise CommandError("This is a permission request: answer it with allow or deny.")
        body = {"answer": options["answer"], "scope": options["scope"], "folder": options["folder"]}
        if options["answer"] is None:
            body |= await _typed_answer(row)
        if body["answer"] == "deny":
            body = {"answer": "deny"}
        elif options["duration"]:
            body["until"] = int(time.time()) + seconds_of(options["duration"])
        body["reason"] = options["reason"]
        address = below(row["workspace_id"], "approvals", row["id"], "answer")
        result: dict[str, Any] = await client.request("POST", address, body=body)
        return result

    async def _questions(
        self, client: Client, row: Mapping[str, Any], options: Mapping[str, Any]
    ) -> dict[str, Any]:
        if options["answer"]:
            raise CommandError("These are questions: answer them with --response, or --dismiss.")
        responses: list[dict[str, Any]] | None
        if options["dismiss"]:
            responses = None
        elif options["response"]:
            responses = responses_of(row["questions"], options["response"])
        else:
            responses = await _typed_responses(row)
        address = below(row["workspace_id"], "questions", row["id"])
        if responses is None:
            result: dict[str, Any] = await client.request("POST", f"{address}/dismiss")
        else:
            body = {"responses": responses}
            result = await client.request("POST", f"{address}/answer", body=body)
        return result


async def _typed_answer(row: Mapping[str, Any]) -> dict[str, Any]:
    question = question_of(row, is_earlier=False)
    terminal = UserTerminal.of_this_process()
    if terminal is None:
        shown = "\n".join([heading_of(question), *(f"  {line}" for line in lines_of(question))])
        raise CommandError(f"{shown}\nThere is no terminal: give the answer, allow or deny.")
    reply = await Person(terminal, _nothing).ask(question)
    if reply.answer is Answer.DENY:
        return {"answer": "deny"}
    scope = "session" if reply.answer is Answer.ALLOW_SESSION else "once"
    return {"answer": "allow", "scope": scope, "folder": reply.folder}


async def _typed_responses(row: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    terminal = UserTerminal.of_this_process()
    if terminal is None:
        asked = "\n".join(f"  {visible(str(each['question']))}" for each in row["questions"])
        raise CommandError(f"{asked}\nThere is no terminal: give a --response for each.")
    responses = await PersonToAsk(terminal, _nothing).survey(
        Survey(row["id"], tuple(row["questions"]))
    )
    return None if responses is None else list(responses)


class _nothing:  # noqa: N801  used as a statement
    """No other output is held back: there is none."""

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(self, *_: object) -> None:
        """Does nothing."""


def responses_of(questions: list[Mapping[str, Any]], typed: list[str]) -> list[dict[str, Any]]:
    """The responses to the questions in their order. Raises ``CommandError``."""
    if len(typed) > len(questions):
        raise CommandError(f"There are {len(questions)} questions, but {len(typed)} responses.")
    responses = []
    for question, text in zip(questions, typed, strict=False):
        ids = [choice["id"] for choice in question.get("choices") or ()]
        answer = answer_of(question["type"], text, ids) if text else {}
        if answer is None:
            raise CommandError(f"{text!r} does not fit: {visible(str(question['question']))}")
        if answer:
            responses.append({"request_id": question["id"], **answer})
    return responses


def seconds_of(text: str) -> int:
    """Raises ``CommandError``."""
    match = re.fullmatch(r"(\d{1,4})([mhdw])", text)
    if match is None or int(match[1]) == 0:
        raise CommandError("--for must be a time like 30m, 2h, 7d or 4w.")
    return int(match[1]) * _SECONDS[match[2]]
