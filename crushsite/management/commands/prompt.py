"""``manage.py prompt``: one prompt from a terminal or a script, with or without its answer."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from typing_extensions import override

from crushsite.cli.in_process import InProcess
from crushsite.cli.on_folder import OnFolder
from crushsite.cli.over_http import OverHttp
from crushsite.cli.permission_prompt import Everybody, Nobody, PermissionAnswerer, Person
from crushsite.cli.prompt_run import PromptRun
from crushsite.cli.question_prompt import NobodyToAsk, PersonToAsk, QuestionAnswerer
from crushsite.cli.safe_text import visible
from crushsite.cli.session import PromptRefused, PromptSession
from crushsite.cli.stored_sessions import NotFound, find_stored
from crushsite.cli.terminal import UserTerminal
from crushsite.cli.terminal_output import CommandOutput, RunEnded, TerminalOutput
from crushsite.data_folder import ensure_data_dir
from crushsite.logs import set_up_logging
from crushsite.program_name import command_line
from crushsite.server_client import find_running_server
from workspaces.api.sessions import TITLE_LIMIT
from workspaces.log.ids import new_id

INTERRUPTED = 130


class Command(BaseCommand):
    help = (
        "Sends a prompt to a session of a folder: through the running server, else in this process."
    )
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("prompt", help="what to say; - reads it from standard input")
        parser.add_argument("--path", default=".", help="the folder to work in (default: this one)")
        parser.add_argument(
            "--session",
            default="",
            help="go on in this session (its id, or the beginning of it), not in a new one",
        )
        parser.add_argument(
            "--title",
            default="",
            help="with --wait: the session's title (default: the small model makes one)",
        )
        parser.add_argument(
            "--wait",
            action="store_true",
            help="stay and print the answer as it comes; Ctrl-C cancels the prompt",
        )
        parser.add_argument(
            "--yolo",
            action="store_true",
            help="with --wait: allow whatever tools this prompt asks permission for",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if options["yolo"] and not options["wait"]:
            raise CommandError("--yolo needs --wait: without it nobody is here to allow anything.")
        if options["title"] and not options["wait"]:
            raise CommandError("--title needs --wait: the title is given when the work begins.")
        if len(options["title"]) > TITLE_LIMIT:
            raise CommandError(f"--title has at most {TITLE_LIMIT} characters.")
        text = sys.stdin.read() if options["prompt"] == "-" else options["prompt"]
        if not text.strip():
            raise CommandError("The prompt is empty.")
        path = os.path.realpath(Path(options["path"]).expanduser())
        set_up_logging("WARNING")
        try:
            conversation = _conversation(path, works=options["wait"])
            asyncio.run(self._converse(conversation, text, path, options))
        except PromptRefused as refusal:
            raise CommandError(str(refusal)) from refusal
        except BrokenPipeError:
            # Whoever read our output has gone: nothing more can be said, not at exit either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from None

    async def _converse(
        self, conversation: PromptSession, text: str, path: str, options: dict[str, Any]
    ) -> None:
        output = CommandOutput(self.stdout, self.stderr)
        try:
            await conversation.open()
            wanted = options["session"]
            if wanted:
                wanted = await asyncio.to_thread(_session_of, wanted, path)
            session_id = await conversation.ensure_session(wanted)
            run_id = new_id()

            async def send() -> None:
                await conversation.prompt(session_id, text, run_id=run_id)

            if not options["wait"]:
                await send()
                self.stdout.write(session_id)
                if isinstance(conversation, OnFolder) and conversation.is_only_stored:
                    output.note(
                        "The prompt is stored. No server runs, so nothing works on it until one"
                        f" starts: {command_line('serve')}, or prompt with --wait.\n"
                    )
                return
            telling = TerminalOutput(
                session_id=session_id, run_id=run_id, say=output.say, note=output.note
            )
            output.note(f"session {session_id}\n")
            asker, surveyor = _people(output, yolo=options["yolo"])
            waiting = PromptRun(
                conversation,
                telling,
                asker,
                surveyor,
                send=send,
                session_id=session_id,
                title=options["title"],
                note=output.note,
            )
            ended = await _interruptible(waiting)
            await _wait_for_others(conversation, output)
            await _announce_jobs(conversation, output)
        finally:
            await conversation.close()
        self._conclude(ended)
        if isinstance(asker, Nobody) and asker.has_denied:
            raise CommandError("A permission was denied, because nobody was here to give it.")

    def _conclude(self, ended: RunEnded) -> None:
        if ended.outcome == "completed":
            return
        if ended.outcome == "cancelled":
            raise CommandError("The prompt was cancelled.", returncode=INTERRUPTED)
        raise CommandError(ended.error or f"The prompt ended as {ended.outcome}.")


def _people(output: CommandOutput, *, yolo: bool) -> tuple[PermissionAnswerer, QuestionAnswerer]:
    """Who answers permission requests, and who answers a tool's questions."""
    terminal = UserTerminal.of_this_process()
    if terminal is None:
        asker = Everybody(output.note, None) if yolo else Nobody(output.note)
        return asker, NobodyToAsk(output.note)
    person = Person(terminal, output.held)
    return Everybody(output.note, person) if yolo else person, PersonToAsk(terminal, output.held)


def _conversation(path: str, *, works: bool) -> PromptSession:
    folder = ensure_data_dir()
    if not settings.REDIS_URL:
        return OnFolder(folder, path, works=works)
    server = find_running_server(folder)
    if server is not None:
        return OverHttp(folder, server, path)
    # Somewhere are workers: this process only accepts, and listens to them.
    return InProcess(folder, path, works=False, is_alone=False)


def _session_of(wanted: str, path: str) -> str:
    """The whole id. Synchronous. Raises ``PromptRefused`` with what to type instead."""
    try:
        session = find_stored(wanted)
    except NotFound as error:
        raise PromptRefused(str(error)) from error
    finally:
        connection.close()
    if session.path != path:
        raise PromptRefused(
            f"Session {session.id} belongs to another folder: add --path {session.path}."
        )
    return session.id


async def _announce_jobs(conversation: PromptSession, output: CommandOutput) -> None:
    for command in await conversation.jobs_that_end():
        output.note(f"ending a background command with its last client: {visible(command)}\n")


async def _wait_for_others(conversation: PromptSession, output: CommandOutput) -> None:
    waiting = asyncio.ensure_future(conversation.wait_for_others(output.note))
    with suppress(asyncio.CancelledError), _signals(waiting.cancel):
        await waiting


async def _interruptible(waiting: PromptRun) -> RunEnded:
    """The first Ctrl-C cancels the prompt, a second one leaves it to the server."""
    cancels: list[asyncio.Task[None]] = []
    ending = asyncio.ensure_future(waiting.until_end())

    def interrupt() -> None:
        if cancels:
            ending.cancel()
        else:
            cancels.append(asyncio.create_task(waiting.cancel()))

    try:
        with _signals(interrupt):
            return await ending
    except asyncio.CancelledError:
        raise CommandError(
            "Left; the prompt's cancel is on its way.", returncode=INTERRUPTED
        ) from None
    finally:
        await asyncio.gather(*cancels, return_exceptions=True)


class _signals:  # noqa: N801  used as a statement
    """SIGINT calls this for a while."""

    def __init__(self, react: Callable[[], object]) -> None:
        self._react = react

    def __enter__(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._react)

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
