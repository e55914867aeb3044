"""``manage.py config migrate``: a configuration file in the other format."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from agents.config.crushrc.bash import evaluate
from agents.config.crushrc.conversion import as_crushrc, as_json
from agents.config.find import FILE_NAME, SHELL_NAME, is_shell_file, users_own
from agents.config.parse import parse_file
from agents.config.schema import check


class Command(BaseCommand):
    help = (
        "`config migrate [FILE]` writes a crush.json as a crushrc, or a crushrc as a crush.json,"
        " into the same folder. Without FILE it converts your own crush.json. A crushrc is a"
        " program: it is run, with your environment."
    )
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="migrate")
        migrate = actions.add_parser("migrate", help="write the file in the other format")
        migrate.add_argument("file", nargs="?", help="crush.json, .crush.json, crushrc or .crushrc")
        migrate.add_argument("--output", metavar="FILE", help="where to write; - prints it")
        migrate.add_argument("--force", action="store_true", help="replace an existing file")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        file = os.path.realpath(Path(options["file"] or users_own(os.environ)).expanduser())
        if not Path(file).is_file():
            raise CommandError(f"{file} does not exist.")
        text, left_out = _from_shell(file) if is_shell_file(file) else _from_json(file)
        if options["output"] == "-":
            self.stdout.write(text, ending="")
        else:
            target = Path(options["output"] or _other(file))
            _write(target, text, replaces=options["force"])
            self.stdout.write(f"Wrote {target}.")
            if target.parent == Path(file).parent:
                self.stdout.write(
                    f"Both files apply until you remove one; the {SHELL_NAME} takes precedence."
                )
        if is_shell_file(file):
            self.stderr.write(
                "The file contains the present values of variables, including keys: replace keys"
                " with $NAME."
            )
        for key in left_out:
            self.stderr.write(
                f"{key} cannot be expressed in a {SHELL_NAME}: keep it in {FILE_NAME}."
            )


def _from_json(file: str) -> tuple[str, list[str]]:
    parsed = parse_file(file)
    if parsed.problems:
        raise CommandError(f"{parsed.problems[0]}.")
    tree, misfits = check(parsed.tree)
    text, left_out = as_crushrc(tree)
    return text, [*left_out, *(misfit.key for misfit in misfits)]


def _from_shell(file: str) -> tuple[str, list[str]]:
    evaluated = evaluate(file, env=dict(os.environ))
    problems = [evaluated.fault] if evaluated.fault is not None else list(evaluated.problems)
    if problems:
        raise CommandError("\n".join(f"{problem}" for problem in problems))
    return as_json(evaluated.trees), []


def _other(file: str) -> str:
    path = Path(file)
    dot = "." if path.name.startswith(".") else ""
    return str(path.with_name(dot + (FILE_NAME if is_shell_file(file) else SHELL_NAME)))


def _write(target: Path, text: str, *, replaces: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if replaces else os.O_EXCL)
    try:
        # It may hold keys.
        descriptor = os.open(target, flags, 0o600)
    except FileExistsError:
        raise CommandError(f"{target} exists already. --force replaces it.") from None
    except OSError as error:
        raise CommandError(f"{target} cannot be written: {error.strerror}.") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
