"""``manage.py trust``: whether a folder's own configuration may start programs and the like.

It works through the running server, else in this process.
"""

from __future__ import annotations

import asyncio
import os
from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from agents.config.cache import config_of_folder
from agents.config.edits.trust_requests import revoke_trust, set_trust, shown_trust
from crushsite.cli.exit_codes import Exit
from crushsite.cli.servers import ServerLogin, add_server_options, chosen_login
from crushsite.cli.stored_people import command_actor, refuse_tools
from crushsite.cli.terminal import UserTerminal, aligned, visible, visible_lines
from crushsite.server_client import (
    RunningServer,
    ServerGone,
    ServerRefused,
    find_running_server,
)
from crushsite.storage import require_database
from workspaces.log.writer import writer
from workspaces.queries.trust import answered_requests, shown_answer

QUESTION = "  trust this folder? [y]es, [n]o: "
STATES = {
    "unneeded": "{path} needs no trust: its configuration starts, sends and allows nothing.",
    "trusted": "{path} is trusted.",
    "denied": "{path} is not trusted.",
    "open": "{path} is not trusted yet: nobody has answered.",
}


class Command(BaseCommand):
    help = (
        "Shows what a folder's own configuration would start, send and allow, and asks whether"
        " it may. Without a terminal it only shows; exits 1 where the folder is not trusted."
    )
    examples = ("trust", "trust ~/project --allow", "trust --list")
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", nargs="?", default=".", help="the folder (default: this one)")
        answers = parser.add_mutually_exclusive_group()
        answers.add_argument("--list", action="store_true", help="every folder with an answer")
        for answer, help_text in (
            (ALLOW, "trust the folder as it is now, without a question"),
            (DENY, "do not trust the folder as it is now"),
            (REVOKE, "forget every answer for the folder, so that the question comes again"),
        ):
            answers.add_argument(
                f"--{answer}", action="store_const", const=answer, dest="answer", help=help_text
            )
        add_server_options(parser)

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        login = chosen_login(options)
        trusts = FolderTrusts(login)
        if options["list"]:
            self._list(trusts.answers())
            return
        is_elsewhere = login is not None and options["path"].startswith("/")
        path = options["path"]
        if not is_elsewhere:
            path = os.path.realpath(Path(path).expanduser())
        if not is_elsewhere and not Path(path).is_dir():
            raise CommandError(f"{path} is not a folder.")
        shown = trusts.shown(path)
        answer = options["answer"] or ""
        terminal = UserTerminal.of_this_process()
        if not answer and terminal is not None and shown["state"] in {"open", "denied"}:
            answer = asyncio.run(_answer_at(terminal, visible_lines(shown["description"])))
        elif shown["state"] != "unneeded":
            self.stdout.write("\n".join(visible_lines(shown["description"])) + "\n")
        if answer == REVOKE or (answer and shown["state"] != "unneeded"):
            shown = trusts.answer(path, answer, digest=shown.get("digest", ""))
        self.stdout.write(STATES[shown["state"]].format(path=path))
        if not options["answer"] and shown["state"] in {"open", "denied"}:
            raise SystemExit(1)

    def _list(self, answers: list[dict[str, Any]]) -> None:
        if not answers:
            self.stdout.write("No folder has an answer.")
            return
        rows = [
            [
                "trusted" if answer["allowed"] else "denied",
                answer["path"],
                answer["answered_at"][:19].replace("T", " "),
                answer["digest"][:12],
            ]
            for answer in answers
        ]
        self.stdout.write(aligned(["answer", "folder", "when", "digest"], rows))


async def _answer_at(terminal: UserTerminal, lines: list[str]) -> str:
    """Shows everything, and only then takes an answer."""
    if not await terminal.show(lines[0], lines[1:], below=QUESTION):
        return DENY
    while True:
        typed = await terminal.ask(QUESTION)
        if not typed or typed.strip().lower() in {"n", "no"}:
            return DENY if typed else ""
        if typed.strip().lower() in {"y", "yes"}:
            return ALLOW


PATH = "/api/trust"
UNAUTHORISED = frozenset({401, 403})
ALLOW, DENY, REVOKE = "allow", "deny", "revoke"


class FolderTrusts:
    def __init__(self, login: ServerLogin | None) -> None:
        self._server = (
            find_running_server(settings.DATA_DIR) if login is None else login.as_server()
        )
        if self._server is None:
            require_database()

    def answers(self) -> list[dict[str, Any]]:
        if self._server is not None:
            listed: list[dict[str, Any]] = _call(self._server, "GET")["answers"]
            return listed
        return [shown_answer(request) for request in answered_requests("")]

    def shown(self, path: str) -> dict[str, Any]:
        """Raises ``CommandError``."""
        if self._server is not None:
            shown: dict[str, Any] = _call(self._server, "GET", query={"path": path})
            return shown
        return shown_trust(config_of_folder(path))

    def answer(self, path: str, answer: str, *, digest: str = "") -> dict[str, Any]:
        """Stores an answer; ``digest`` identifies what was shown. Raises ``CommandError``."""
        if self._server is not None:
            body = {"path": path, "answer": answer, "digest": digest}
            answered: dict[str, Any] = _call(self._server, "POST", body)
            return answered
        refuse_tools("decide whether a folder is trusted")
        if answer == REVOKE:
            writer.write_and_wait("", partial(revoke_trust, path=path))
        else:
            config = config_of_folder(path)
            if config.trust.powers.digest != digest:
                raise CommandError(
                    "The folder's configuration has changed since it was shown: run the command again."
                )
            job = partial(
                set_trust,
                path=path,
                config=config,
                is_allowed=answer == ALLOW,
                actor=command_actor(),
            )
            writer.write_and_wait("", job)
        return self.shown(path)


def _call(
    server: RunningServer,
    method: str,
    body: dict[str, str] | None = None,
    *,
    query: dict[str, str] | None = None,
) -> Any:
    try:
        return server.call(method, PATH, body, query=query)
    except ServerRefused as refusal:
        code = Exit.UNAUTHORISED if refusal.status in UNAUTHORISED else Exit.FAILED
        raise CommandError(visible(refusal.sentence), returncode=code) from refusal
    except ServerGone as error:
        raise CommandError(
            f"The connection to the server failed: {error}", returncode=Exit.UNREACHABLE
        ) from error
