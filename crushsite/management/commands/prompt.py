"""``manage.py prompt``: one prompt from a terminal or a script, with or without its answer."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from crushsite.logs import set_up_logging
from crushsite.prompting.asking import Asker, Everybody, Nobody, Person, line_of
from crushsite.prompting.conversation import Conversation, PromptRefused
from crushsite.prompting.in_process import InProcess
from crushsite.prompting.over_http import OverHttp
from crushsite.prompting.surveying import NobodyToAsk, PersonToAsk
from crushsite.prompting.telling import Ended, Telling, plain
from crushsite.prompting.waiting import Waiting
from crushsite.running import ensure_data_dir, ensure_migrated, sole_server
from crushsite.running_server import find_running_server
from workspaces.api.sessions import TITLE_LIMIT
from workspaces.storage.ids import new_id

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
        parser.add_argument("--session", default="", help="go on in this session, not a new one")
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
        with ExitStack() as stack:
            conversation = self._conversation(stack, path, works=options["wait"])
            try:
                asyncio.run(self._converse(conversation, text, options))
            except PromptRefused as refusal:
                raise CommandError(str(refusal)) from refusal
            except BrokenPipeError:
                # Whoever read our output has gone: nothing more can be said, not at exit either.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise SystemExit(1) from None

    def _conversation(self, stack: ExitStack, path: str, *, works: bool) -> Conversation:
        folder = ensure_data_dir()
        server = find_running_server(folder)
        if server is not None:
            return OverHttp(folder, server, path)
        if settings.REDIS_URL:
            # Somewhere are workers: this process only accepts, and listens to them.
            return InProcess(path, works=False, is_alone=False)
        stack.enter_context(sole_server(folder))
        ensure_migrated()
        return InProcess(path, works=works, is_alone=True)

    async def _converse(
        self, conversation: Conversation, text: str, options: dict[str, Any]
    ) -> None:
        try:
            await conversation.open()
            session_id = await conversation.ensure_session(options["session"])
            run_id = new_id()

            async def send() -> None:
                await conversation.prompt(session_id, text, run_id=run_id)

            if not options["wait"]:
                await send()
                self.stdout.write(session_id)
                return
            telling = Telling(session_id=session_id, run_id=run_id, say=self._say, note=self._note)
            self._note(f"session {session_id}\n")
            asker = self._asker(yolo=options["yolo"])
            waiting = Waiting(
                conversation,
                telling,
                asker,
                PersonToAsk(self._note, _typed) if sys.stdin.isatty() else NobodyToAsk(self._note),
                send=send,
                session_id=session_id,
                title=options["title"],
                note=self._note,
            )
            ended = await _interruptible(waiting)
            if isinstance(conversation, InProcess):
                await self._wait_for_others(conversation)
        finally:
            await conversation.close()
        self._conclude(ended)
        if isinstance(asker, Nobody) and asker.has_denied:
            raise CommandError("A permission was denied, because nobody was here to give it.")

    def _asker(self, *, yolo: bool) -> Asker:
        if yolo:
            return Everybody(self._note)
        return Person(self._note) if sys.stdin.isatty() else Nobody(self._note)

    async def _wait_for_others(self, conversation: InProcess) -> None:
        if not conversation.other_runs:
            return
        self._note(
            f"{conversation.other_runs} more accepted earlier are being worked on;"
            " Ctrl-C leaves them to the next start\n"
        )
        waiting = asyncio.ensure_future(conversation.wait_for_other_runs())
        with suppress(asyncio.CancelledError), _signals(waiting.cancel):
            await waiting

    def _conclude(self, ended: Ended) -> None:
        if ended.outcome == "completed":
            return
        if ended.outcome == "cancelled":
            raise CommandError("The prompt was cancelled.", returncode=INTERRUPTED)
        raise CommandError(ended.error or f"The prompt ended as {ended.outcome}.")

    def _say(self, text: str) -> None:
        self.stdout.write(plain(text) if self.stdout.isatty() else text, ending="")
        self.stdout.flush()

    def _note(self, text: str) -> None:
        self.stderr.write(text, style_func=str, ending="")  # no alarm: it is not an error
        self.stderr.flush()


async def _interruptible(waiting: Waiting) -> Ended:
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


async def _typed() -> str:
    return await line_of(sys.stdin.fileno())
