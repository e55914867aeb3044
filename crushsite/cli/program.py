"""Runs a command: `crush-server NAME` where it is installed, `manage.py NAME` in a checkout.

The installed program knows the project's own commands alone. `manage.py` runs
Django's too, for whoever develops, and lists ours first.
"""

from __future__ import annotations

import difflib
import os
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import ManagementUtility, get_commands, load_command_class
from django.core.management.base import BaseCommand, OutputWrapper
from typing_extensions import override

from crushsite.program_name import CHECKOUT_PROGRAM, PROGRAM
from workspaces.api.version import VERSION

OWN_APPS = frozenset({"crushsite", "agents", "permissions", "workspaces"})
USAGE_ERROR = 2
# Ours, but in place of one that only a checkout has.
CHECKOUT_ONLY = frozenset({"runserver"})
# In the order in which somebody comes to need them; others of ours follow under "more".
GROUPS: Mapping[str, Sequence[str]] = {
    "everyday": ("serve", "prompt", "sessions", "cancel", "fleet", "trust", "config", "doctor"),
    "accounts of /admin": ("createsuperuser", "changepassword"),
    "several processes on PostgreSQL and Redis": ("migrate", "web", "runworker"),
}
# What Django gives to every command. They work, but they belong to who develops this.
_DJANGO_OPTIONS = frozenset(
    {"--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color", "--force-color"}
    | {"--skip-checks", "-v", "--version"}
)
_NAME_WIDTH = 18


def run(arguments: Sequence[str]) -> None:
    """``arguments`` begin with the program's name, as ``sys.argv`` does. May exit."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crushsite.settings")
    try:
        Program(list(arguments)).execute()
    except ImproperlyConfigured as error:
        # A variable's value: its sentence says what to change, a stack trace would hide it.
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
        settings.INSTALLED_APPS  # noqa: B018  a bad setting is named instead of the command
        apps = get_commands()
        app = apps.get(subcommand)
        if app is None or not self._knows(subcommand, app):
            self._refuse(subcommand, apps)
        command = load_command_class(app, subcommand)
        return _with_our_manners(command) if _is_own(app) else command

    @override
    def main_help_text(self, commands_only: bool = False) -> str:
        names = [
            name
            for name, app in get_commands().items()
            if _is_own(app) and name not in CHECKOUT_ONLY
        ]
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

    def _knows(self, name: str, app: Any) -> bool:
        return not self._is_installed or (_is_own(app) and name not in CHECKOUT_ONLY)

    def _refuse(self, wanted: str, apps: Mapping[str, Any]) -> NoReturn:
        known = [name for name, app in apps.items() if self._knows(name, app)]
        near = difflib.get_close_matches(wanted, known, n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        sys.stderr.write(
            f"{self.prog_name}: there is no command {wanted!r}.{meant}"
            f" `{self.prog_name} help` lists them.\n"
        )
        sys.exit(USAGE_ERROR)


def _is_own(app: Any) -> bool:
    return app in OWN_APPS


def _with_our_manners(command: BaseCommand) -> BaseCommand:
    """Our version, no options of Django's in the help, and errors named as such."""
    command.suppressed_base_arguments = set(_DJANGO_OPTIONS)
    command.get_version = lambda: f"{PROGRAM} {VERSION}"  # type: ignore[method-assign]  # of this one
    command.stderr = _Errors(sys.stderr)
    command.stderr.style_func = command.style.ERROR
    return command


class _Errors(OutputWrapper):
    """Django names the class of an error before its sentence; who reads it has no use for that."""

    @override
    def write(self, msg: str = "", *args: Any, **kwargs: Any) -> None:  # type: ignore[override]  # Django's own
        super().write(msg.replace("CommandError: ", "Error: ", 1), *args, **kwargs)


def _listed(names: Iterable[str]) -> list[str]:
    left = set(names)
    lines: list[str] = []
    for group, members in [*GROUPS.items(), ("more", sorted(left))]:
        found = [name for name in members if name in left]
        left -= set(found)
        if found:
            lines += [
                "",
                f"{group}:",
                *(f"  {name:<{_NAME_WIDTH}}{_about(name)}" for name in found),
            ]
    return lines


def _about(name: str) -> str:
    sentence = (
        str(load_command_class(get_commands()[name], name).help).partition(". ")[0].rstrip(".")
    )
    return f"\n{' ' * (_NAME_WIDTH + 2)}".join(textwrap.wrap(sentence, 78 - _NAME_WIDTH))


def _filled(names: Iterable[str]) -> list[str]:
    return textwrap.wrap(", ".join(sorted(names)), 78, initial_indent="  ", subsequent_indent="  ")
