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
from typing_extensions import override

from agents.states import RunOutcome, Strategy
from crushsite.cli.exit_codes import Exit
from crushsite.cli.on_folder import OnFolder
from crushsite.cli.prompt_choices import JsonOutput, choices_of, line_of
from crushsite.cli.prompt_run import PromptRun
from crushsite.cli.servers import add_server_options, chosen_login
from crushsite.cli.session import Choices, OverServer, PromptRefused, PromptSession
from crushsite.cli.terminal import UserTerminal, visible
from crushsite.cli.terminal_output import CommandOutput, RunEnded, TerminalOutput
from crushsite.cli.user_answers import (
    AllowAll,
    Nobody,
    NobodyToAsk,
    PermissionAnswerer,
    Person,
    PersonToAsk,
    QuestionAnswerer,
)
from crushsite.logs import set_up_logging
from crushsite.program_name import command_line
from crushsite.server_client import find_running_server
from crushsite.storage import ensure_data_dir
from workspaces.log.ids import new_id
from workspaces.placement.remote_place import remote_place

FORMAT_TEXT, FORMAT_JSON, FORMAT_STREAM = "text", "json", "stream-json"
STRATEGIES = [strategy.value for strategy in Strategy]


class Command(BaseCommand):
    help = (
        "Sends a prompt to a session of a folder: through the running server, else in this process."
    )
    examples = (
        'prompt "list the failing tests" --wait',
        "prompt --session 5e1e8f0c - < prompt.txt",
        'prompt "fix the build" --wait --budget 2usd --budget 30m',
        'prompt "summarise README.md" --wait --json | jq -r .text',
    )
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("prompt", help="the text; - reads it from standard input")
        parser.add_argument("--path", default=".", help="the folder to work in (default: this one)")
        parser.add_argument(
            "--session",
            default="",
            help="continue this session (its id, or the beginning of it) instead of a new one",
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
        choices = parser.add_argument_group("the run")
        choices.add_argument(
            "--model", help="large, small, or PROVIDER/MODEL (default: the folder's large model)"
        )
        choices.add_argument("--effort", help="one of the model's reasoning levels")
        choices.add_argument(
            "--strategy",
            choices=STRATEGIES,
            help="in a busy session: wait, join the running turn, end it, or be refused"
            " (default: enqueue)",
        )
        choices.add_argument(
            "--scheduled",
            action="store_true",
            help="a timer sends it: interactive prompts get the next places before it",
        )
        choices.add_argument(
            "--budget",
            metavar="LIMIT",
            action="append",
            help="what ends the run: 0.50usd, 20000tokens, 10steps or 15m; repeat it for several",
        )
        output = parser.add_mutually_exclusive_group()
        output.add_argument(
            "--output-format",
            choices=[FORMAT_TEXT, FORMAT_JSON, FORMAT_STREAM],
            default=FORMAT_TEXT,
            help="json: one object at the end; stream-json: each item of the stream on a line",
        )
        output.add_argument(
            "--json",
            dest="output_format",
            action="store_const",
            const=FORMAT_JSON,
            help="the same as --output-format json",
        )
        add_server_options(parser)
        parser.add_argument(
            "--yolo",
            action="store_true",
            help="with --wait: allow every tool call of this prompt that needs permission",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if options["yolo"] and not options["wait"]:
            raise CommandError(
                "--yolo needs --wait: without it, this command ends before a tool is called."
            )
        if options["title"] and not options["wait"]:
            raise CommandError("--title needs --wait: the title is set when the run starts.")
        if options["title"]:
            _check_title(options["title"])
        if options["output_format"] == FORMAT_STREAM and not options["wait"]:
            raise CommandError(
                "--output-format stream-json needs --wait: nothing comes without it."
            )
        choices = choices_of(options)
        text = sys.stdin.read() if options["prompt"] == "-" else options["prompt"]
        if not text.strip():
            raise CommandError("The prompt is empty.")
        login = chosen_login(options)
        path = options["path"]
        is_elsewhere = login is not None and path.startswith("/")
        if not is_elsewhere and remote_place(path) is None:
            path = os.path.realpath(Path(path).expanduser())
        set_up_logging("WARNING")
        try:
            if login is None:
                conversation = _conversation(path, works=options["wait"])
            else:
                conversation = OverServer(settings.DATA_DIR, login.as_server(), path)
            asyncio.run(self._converse(conversation, text, choices, options))
        except PromptRefused as refusal:
            raise CommandError(str(refusal), returncode=refusal.exit_code) from refusal
        except BrokenPipeError:
            # The reader of our output is gone: nothing can be printed, not even at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from None

    async def _converse(
        self, conversation: PromptSession, text: str, choices: Choices, options: dict[str, Any]
    ) -> None:
        output = CommandOutput(self.stdout, self.stderr)
        output_format = options["output_format"]
        try:
            await conversation.open()
            wanted = options["session"]
            if wanted:
                wanted = await conversation.session_named(wanted)
            session_id = await conversation.ensure_session(wanted)
            run_id = new_id()

            async def send() -> None:
                await conversation.prompt(session_id, text, run_id=run_id, choices=choices)

            if not options["wait"]:
                await send()
                accepted = {"session_id": session_id, "run_id": run_id}
                self.stdout.write(session_id if output_format == FORMAT_TEXT else line_of(accepted))
                if isinstance(conversation, OnFolder) and conversation.is_only_stored:
                    output.note(
                        "The prompt is stored. It runs when a server starts: run"
                        f" `{command_line('serve')}`, or use --wait.\n"
                    )
                return
            if output_format == FORMAT_TEXT:
                transcript = TerminalOutput(
                    session_id=session_id, run_id=run_id, say=output.say, note=output.note
                )
                output.note(f"session {session_id}\n")
            else:
                transcript = JsonOutput(
                    session_id=session_id,
                    run_id=run_id,
                    write=lambda item: output.say(f"{line_of(item)}\n"),
                    streams=output_format == FORMAT_STREAM,
                )
            asker, surveyor = _people(output, yolo=options["yolo"])
            waiting = PromptRun(
                conversation,
                transcript,
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
        if isinstance(transcript, JsonOutput):
            self.stdout.write(line_of(transcript.result(ended)))
        self._conclude(ended)
        if isinstance(asker, Nobody) and asker.has_denied:
            raise CommandError(
                "A permission request was denied, because this prompt has no terminal."
            )

    def _conclude(self, ended: RunEnded) -> None:
        if ended.outcome == RunOutcome.COMPLETED:
            return
        if ended.outcome == RunOutcome.CANCELLED:
            raise CommandError("The prompt was cancelled.", returncode=Exit.INTERRUPTED)
        if ended.outcome == RunOutcome.OVER_BUDGET:
            raise CommandError(
                ended.error or "The run has used up its budget.", returncode=Exit.OVER_BUDGET
            )
        raise CommandError(ended.error or f"The prompt ended as {ended.outcome}.")


def _check_title(title: str) -> None:
    """Raises ``CommandError``."""
    from workspaces.api.sessions import TITLE_LIMIT  # noqa: PLC0415  loads REST framework

    if len(title) > TITLE_LIMIT:
        raise CommandError(f"--title has at most {TITLE_LIMIT} characters.")


def _people(output: CommandOutput, *, yolo: bool) -> tuple[PermissionAnswerer, QuestionAnswerer]:
    """Chooses who answers permission requests, and who answers a tool's questions."""
    terminal = UserTerminal.of_this_process()
    if terminal is None:
        asker = AllowAll(output.note, None) if yolo else Nobody(output.note)
        return asker, NobodyToAsk(output.note)
    person = Person(terminal, output.held)
    return AllowAll(output.note, person) if yolo else person, PersonToAsk(terminal, output.held)


def _conversation(path: str, *, works: bool) -> PromptSession:
    folder = ensure_data_dir()
    if not settings.REDIS_URL:
        return OnFolder(folder, path, works=works)
    server = find_running_server(folder)
    if server is not None:
        return OverServer(folder, server, path)
    # Workers run elsewhere: this process only accepts prompts and reads events.
    from crushsite.cli.in_process import InProcess  # noqa: PLC0415  a running server needs none

    return InProcess(folder, path, works=False, is_alone=False)


async def _announce_jobs(conversation: PromptSession, output: CommandOutput) -> None:
    for command in await conversation.jobs_that_end():
        output.note(
            f"stopping a background command, because its last client leaves: {visible(command)}\n"
        )


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
            "Interrupted. The prompt is being cancelled.", returncode=Exit.INTERRUPTED
        ) from None
    finally:
        await asyncio.gather(*cancels, return_exceptions=True)


class _signals:  # noqa: N801  used as a statement
    """Calls ``react`` on SIGINT inside the block."""

    def __init__(self, react: Callable[[], object]) -> None:
        self._react = react

    def __enter__(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._react)

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
