"""Runs a command: `crush-server NAME` where it is installed, `manage.py NAME` in a checkout.

The installed program has only the project's own commands. `manage.py` also runs
Django's, for developers, and lists ours first.
"""

from __future__ import annotations

import difflib
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import ManagementUtility, get_commands, load_command_class
from django.core.management.base import BaseCommand, DjangoHelpFormatter, OutputWrapper
from typing_extensions import override

from crushsite.program_name import CHECKOUT_PROGRAM, PROGRAM, command_line
from workspaces.api.version import VERSION

OWN_APPS = frozenset(
    {
        "crushsite",
        "crushsite.client",
        "agents",
        "notifications",
        "people",
        "permissions",
        "workspaces",
    }
)
# Django's commands that users of the installed program need as well, each with our help.
ADOPTED: Mapping[str, str] = {
    "changepassword": "Changes the password of an account for /admin.",
}
USAGE_ERROR = 2
# Commands of Django that change accounts, or anything at all. A tool of the server may not use them.
FOR_PERSONS = frozenset({"changepassword", "dbshell", "flush", "loaddata", "shell"})
# Ours, but it replaces a command of Django that only a checkout has.
CHECKOUT_ONLY = frozenset({"runserver"})
# In the order in which users need them; our other commands follow under "more".
GROUPS: Mapping[str, Sequence[str]] = {
    "everyday": (
        *("serve", "prompt", "attach", "sessions", "show", "runs", "approvals", "answer", "queue"),
        *("cancel", "usage", "models", "export", "import", "fleet", "trust", "config", "doctor"),
    ),
    "servers elsewhere": ("login", "logout", "servers", "bridge", "remote-worker"),
    "people and programs": (
        "login-link",
        "user",
        "token",
        "audit",
        "createsuperuser",
        "changepassword",
    ),
    "several processes on PostgreSQL and Redis": ("migrate", "secret-key", "web", "runworker"),
}
# Django adds these to every command. They work, but only developers need them.
_DJANGO_OPTIONS = frozenset(
    {"--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color", "--force-color"}
    | {"--skip-checks", "-v", "--version"}
)
_NAME_WIDTH = 18


def run(arguments: Sequence[str]) -> None:
    """Runs a command. ``arguments`` begin with the program's name, like ``sys.argv``. May exit."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crushsite.settings")
    try:
        Program(list(arguments)).execute()
    except ImproperlyConfigured as error:
        # A bad environment variable: the message says what to change, a stack trace would hide it.
        sys.exit(f"{error}")


class Program(ManagementUtility):
    def __init__(self, argv: list[str]) -> None:
        super().__init__(argv)
        self._is_installed = self.prog_name != CHECKOUT_PROGRAM

    @override
    def execute(self) -> None:
        match self.argv[1:]:
            case ["version"] | ["--version"]:
                sys.stdout.write(f"{PROGRAM} {VERSION}\n")
            case ["help", name, *_] if not name.startswith("-"):
                self.argv = [self.argv[0], name, "--help"]
                super().execute()
            case _:
                super().execute()

    @override
    def fetch_command(self, subcommand: str) -> BaseCommand:
        settings.INSTALLED_APPS  # noqa: B018  reports a bad setting before an unknown command
        apps = get_commands()
        wanted, subcommand = subcommand, subcommand.replace("-", "_")
        app = apps.get(subcommand)
        if app is None or not self._offers(subcommand):
            self._refuse(wanted, apps)
        command = load_command_class(app, subcommand)
        if subcommand in FOR_PERSONS:
            command.execute = partial(_execute_for_person, command.execute)  # type: ignore[method-assign]  # of this one
        return _adapted(command, subcommand) if _is_own(subcommand, app) else command

    @override
    def main_help_text(self, commands_only: bool = False) -> str:
        names = own_commands()
        if commands_only:
            return "\n".join(sorted(names if self._is_installed else get_commands()))
        lines = [
            f"usage: {self.prog_name} COMMAND [OPTIONS]",
            "",
            "A server for coding agents.",
            *_listed(names),
            "",
            f"`{self.prog_name} help COMMAND` describes one; `{self.prog_name} --version`.",
        ]
        if not self._is_installed:
            lines += ["", "Django's own:", *_filled(set(get_commands()) - set(names))]
        return "\n".join(lines)

    def _offers(self, name: str) -> bool:
        return not self._is_installed or name in own_commands()

    def _refuse(self, wanted: str, apps: Mapping[str, Any]) -> NoReturn:
        known = [name for name in apps if self._offers(name)]
        near = difflib.get_close_matches(wanted, known, n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        sys.stderr.write(
            f"{self.prog_name}: there is no command {wanted!r}.{meant}"
            f" `{self.prog_name} help` lists all commands.\n"
        )
        sys.exit(USAGE_ERROR)


def own_commands() -> list[str]:
    """The commands of the installed program."""
    apps = get_commands()
    return [name for name in apps if _is_own(name, apps[name]) and name not in CHECKOUT_ONLY]


def command_named(name: str) -> BaseCommand | None:
    """The command that a person types by this name, if it is one of ours."""
    name = name.replace("-", "_")
    if name not in own_commands():
        return None
    return load_command_class(get_commands()[name], name)


def _is_own(name: str, app: Any) -> bool:
    return app in OWN_APPS or name in ADOPTED


def _adapted(command: BaseCommand, name: str) -> BaseCommand:
    """Sets our version, hides Django's options in the help, and simplifies error messages."""
    command.help = ADOPTED.get(name, command.help)
    command.suppressed_base_arguments = set(_DJANGO_OPTIONS)
    if examples := getattr(command, "examples", ()):
        program = command_line("").rstrip()
        text = "\n".join(("examples:", *(f"  {program} {example}" for example in examples)))
        create = command.create_parser
        command.create_parser = partial(create, epilog=text, formatter_class=_Help)  # type: ignore[method-assign]  # of this one
    command.get_version = lambda: f"{PROGRAM} {VERSION}"  # type: ignore[method-assign]  # of this one
    command.stderr = _Errors(sys.stderr)
    command.stderr.style_func = command.style.ERROR
    return command


def _execute_for_person(
    execute: Callable[..., str | None], *args: Any, **options: Any
) -> str | None:
    from crushsite.cli.stored_people import refuse_tools  # noqa: PLC0415  needs Django's models

    refuse_tools()
    return execute(*args, **options)


class _Help(DjangoHelpFormatter):
    """Keeps the lines of the examples."""

    @override
    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        return super()._fill_text(text, width, indent)


class _Errors(OutputWrapper):
    """Replaces the class name that Django puts before an error, which users do not need."""

    @override
    def write(self, msg: str = "", *args: Any, **kwargs: Any) -> None:  # type: ignore[override]  # Django's own
        super().write(msg.replace("CommandError: ", "Error: ", 1), *args, **kwargs)


def _listed(names: Iterable[str]) -> list[str]:
    left = set(names)
    lines: list[str] = []
    for group, members in [*GROUPS.items(), ("more", sorted(left))]:
        found = [name.replace("-", "_") for name in members]
        found = [name for name in found if name in left]
        left -= set(found)
        if found:
            lines += [
                "",
                f"{group}:",
                *(f"  {_typed(name):<{_NAME_WIDTH}}{_about(name)}" for name in found),
            ]
    return lines


def _typed(name: str) -> str:
    """A module's name as users type it; both ways are accepted."""
    return name.replace("_", "-")


def _about(name: str) -> str:
    text = ADOPTED.get(name) or load_command_class(get_commands()[name], name).help
    sentence = text.partition(". ")[0].rstrip(".")
    return f"\n{' ' * (_NAME_WIDTH + 2)}".join(textwrap.wrap(sentence, 78 - _NAME_WIDTH))


def _filled(names: Iterable[str]) -> list[str]:
    return textwrap.wrap(", ".join(sorted(names)), 78, initial_indent="  ", subsequent_indent="  ")
