"""``manage.py login``: verifies a token for a server, and stores it for the other commands."""

from __future__ import annotations

import getpass
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import orjson
from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from crushsite.cli.exit_codes import Exit
from crushsite.cli.servers import (
    ServerLogin,
    checked_ca_file,
    checked_token,
    checked_url,
    store_login,
    token_in,
)
from crushsite.cli.terminal import visible
from crushsite.program_name import command_line
from crushsite.server_client import ServerGone, ServerRefused

UNAUTHORISED = frozenset({401, 403})
VERIFY_SECONDS = 15.0


class Command(BaseCommand):
    help = (
        "Stores a token for a server, after the server has accepted it. Commands then need only"
        " --server URL. The token is typed, or read from --token-file or from standard input."
    )
    examples = (
        "login https://crush.example.com",
        "login https://crush.example.com --token-file token.txt",
        "login https://crush.example.com < token.txt",
    )
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("url", help="https://HOST, http://127.0.0.1:PORT or unix:///PATH")
        parser.add_argument("--token-file", metavar="FILE", help="a file with the token")
        parser.add_argument(
            "--ca-file",
            default="",
            metavar="FILE",
            help="the authority of the server's certificate, if it is one of your own",
        )
        parser.add_argument("--json", action="store_true", help="print a JSON object")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        url, ca_file = checked_url(options["url"]), checked_ca_file(options["ca_file"])
        file = options["token_file"]
        token = checked_token(token_in(Path(file)) if file else _typed_token(url))
        if not token:
            raise CommandError("The token is empty.")
        login = ServerLogin(url, token, "", ca_file)
        version = verified(login)
        path = store_login(login)
        if options["json"]:
            shown = {"url": url, "version": version, "file": str(path)}
            self.stdout.write(orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode())
            return
        self.stdout.write(f"Logged in to {url} (version {visible(version)}).")
        self.stdout.write(
            f"The token is in {path}. Use `--server {url}`, or set CRUSH_SERVER={url}."
        )


def _typed_token(url: str) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().strip()
    try:
        return getpass.getpass(f"Token for {url}: ").strip()
    except (EOFError, KeyboardInterrupt):
        raise CommandError("No token was typed.", returncode=Exit.INTERRUPTED) from None


def verified(login: ServerLogin) -> str:
    """Returns the server's version if it accepts the token. Raises ``CommandError``."""
    try:
        facts = login.as_server().call("GET", "/v1/version", timeout=VERIFY_SECONDS)
    except ServerGone as error:
        raise CommandError(visible(f"{error}."), returncode=Exit.UNREACHABLE) from error
    except ServerRefused as refusal:
        if refusal.status in UNAUTHORISED:
            raise CommandError(
                f"{login.url} does not accept this token: {visible(refusal.sentence)}. Create one on"
                f" its machine with `{command_line('token create NAME')}`.",
                returncode=Exit.UNAUTHORISED,
            ) from refusal
        raise CommandError(visible(f"{login.url}: {refusal.sentence}.")) from refusal
    if not isinstance(facts, dict) or "version" not in facts:
        raise CommandError(f"{login.url} is not a server of this program.", returncode=Exit.FAILED)
    return str(facts["version"])
